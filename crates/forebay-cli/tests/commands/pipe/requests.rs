//! Requests that make no sense.

use crate::support::*;

#[test]
fn each_wrong_request_gets_its_own_clear_answer_and_touches_nothing() {
    let (_folder, untouched) = Folder::with("untouched");
    let cases = "
        1 | /nonexistent/file         | /nonexistent/file: opening it: no such file
        1 | /                         | Name a file in it
        2 | -r 10M                    | mbuffer's -p is --start-reading, its -r is --read-rate
        2 | -m 0                      | '0' for '--memory <SIZE>': '0' is not a size
        2 | -m much                   | 'much' for '--memory <SIZE>': 'much' is not a size. Use a value such as 512k or 64M
        1 | -m 900T                   | what is available
        2 | -m 101%                   | '101%' for '--memory <SIZE>': '101' is not a percentage. Use 0 to 100
        2 | -m 0%                     | '0%' for '--memory <SIZE>': '0%' is not a size. Use a value such as 256M
        2 | -m 1M --block-size 2M     | the block does not fit
        2 | --block-size 0            | '0' for '--block-size <SIZE>': '0' is not a size
        2 | -P 101                    | '101' for '--start-writing <PERCENT>': '101' is not a percentage
        2 | --start-reading x         | 'x' for '--start-reading <PERCENT>': 'x' is not a percentage
        2 | -R fast                   | 'fast' for '--write-rate <RATE>': 'fast' is not a size
        2 | -L 0                      | '0' for '--write-rate <RATE>': '0' is not a size
        2 | --read-rate 0             | '0' for '--read-rate <RATE>': '0' is not a size
        2 | -s x                      | 'x' for '--size <SIZE>': 'x' is not a size
        2 | -i 0                      | '0' for '--input <INPUT>': '0' is not a time. Use a value such as 10 or 500ms
        2 | --interval x              | 'x' for '--interval <SECONDS>': 'x' is not a time
        2 | --watchdog 0              | '0' for '--watchdog <SECONDS>': '0' is not a time
        2 | --hash md4                | 'md4' for '--hash <KIND>': md4 is not a supported checksum. Use sha256 or crc32
        2 | -i - -i -                 | only once
        2 | -o - -o -                 | only once
        2 | -i tcp:nowhere            | 'tcp:nowhere' for '--input <INPUT>': tcp:nowhere: is not a valid address. Use tcp:HOST:PORT
        2 | -O 9000                   | '9000' for '--connect <HOST:PORT>': tcp:9000: is not a valid address. Use tcp:HOST:PORT
        2 | -I x:y                    | 'x:y' for '--listen <[HOST:]PORT>': 'x:y' is not a port. Use a value such as 9000 or HOST:9000
        1 | -i tcp-listen:256.0.0.1:9 | tcp-listen:256.0.0.1:9: listening
        1 | -o tcp:127.0.0.1:1        | Does the other end listen already?
        1 | -o /nonexistent/file      | Make the folder first
        2 | --truncate --append       | --append
        2 | -d 0                      | '0' for '--watchfd <PID[:FD]>': '0' is not a process
        2 | -d 1:x                    | '1:x' for '--watchfd <PID[:FD]>'
        2 | -d 1                      | cannot be used with
        2 | -B 1M                     | use -m SIZE
        2 | --speed 9                 | --speed
    ";
    for [code, arguments, expected] in rows(cases) {
        // The wrong part comes first: what follows it has not been opened by then.
        let output = run!("pipe {arguments} -o {untouched}");
        output.fails(code.parse().unwrap(), expected);
        assert!(output.stdout.is_empty());
        assert_eq!(file_len(&untouched), 0, "{arguments}");
    }
}
