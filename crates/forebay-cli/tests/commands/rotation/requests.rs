//! How the flags of rotation are understood, and which of them contradict each other.

use crate::rotation::VIRTUAL;
use crate::support::*;

#[test]
fn the_parsed_rotation_is_printed_at_the_start() {
    let cases = "
        -b duration:1.5 -b filesize:2000 -b files:24  | a new file every 1.5s or at 2 MB, the newest 24 are kept
        -b interval:60 -b packets:1k -a files:9       | a new file at each multiple of 60s or at 1000 packets, stop after 9
        -C 64M --compress zstd:7                      | a new file at 67.11 MB, compressed with zstd:7
    ";
    for [flags, expected] in rows(cases) {
        let (_folder, name) = Folder::with("a.pcapng");
        let output = run!("capture -i {} -c 1 -w {name} {flags}", VIRTUAL);
        contains(output.log(), format!("forebay: {expected}\n"));
    }
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_is_made() {
    let cases = "
        -w - -C 1                         | one stream
        -C 1                              | name one with -w
        -w a -W 3                         | -C or -G
        -w a -W 3 -C 1 -G 5               | could mean either
        -w a -C 1 -b duration:5           | other names
        -w a -b files:5                   | which end a file
        -w a -b total:500 -b duration:5   | room for two
        -w a -b total:500 -b filesize:300 | room for two
        -w a -b filesize:1 -b filesize:2  | twice
        -w a -b filesize:1 -a filesize:2  | both were given
        -w a -C 1 -a filesize:2           | Use -C
        -w a -b size:1                    | no such criterion. Use KEY:VALUE with one of duration, filesize, packets, files, interval, total
        -w a -b duration:0                | is not a time
        -w a -b packets                   | is not a count
        -w a -C 0                         | is not a size
        -w a -G soon                      | is not a time
        -w a%! -G 5                       | %%
        -a interval:5                     | 'interval:5' for '--autostop <KEY:VALUE>': no such criterion. Use KEY:VALUE with one of duration, filesize, packets, files
        -a filesize:5                     | there is no file
        -w a -a files:5                   | only one file
        -w /dev/null -C 5                 | is not a file
        -w /tmp -C 5                      | is not a file
        -w a --compress zstd              | finished files of a series
        -w a -C 1 --compress gzip         | zstd:1 to
        -w a -C 1 --compress zstd:20      | zstd:1 to
        -w a --sync often                 | is not a policy
        -w a --sync file:3                | is not a policy
        -w a --sync interval:0            | is not a policy
    ";
    let folder = Folder::new();
    for [flags, expected] in rows(cases) {
        let mut command = forebay!("capture -i {} -c 5 {flags}", VIRTUAL);
        command
            .current_dir(folder.path(""))
            .output()
            .unwrap()
            .fails(2, expected);
    }
    let [series, end] =
        ["-b size:1", "-a interval:5"].map(|flag| run!("capture -i sim -w a {flag}"));
    series.fails(
        2,
        "one of duration, filesize, packets, files, interval, total\n",
    );
    end.fails(2, "one of duration, filesize, packets, files\n");
    assert!(folder.names().is_empty());
}
