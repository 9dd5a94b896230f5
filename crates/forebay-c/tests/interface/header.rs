//! The committed header is what cbindgen makes of the code, and the layout of each structure is that of its version of the interface.

use crate::support::{WARNINGS, compiler, output, root};
use forebay_testing::folder::Folder;
use std::{collections::BTreeMap, env, fs, process::Command};

fn made() -> String {
    let mut made = Vec::new();
    cbindgen::generate(root()).unwrap().write(&mut made);
    String::from_utf8(made).unwrap()
}

/// `FOREBAY_WRITE_HEADER=1` writes it.
#[test]
fn the_header_is_made_of_the_code() {
    let made = made();
    let path = root().join("include/forebay.h");
    if env::var_os("FOREBAY_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "run: FOREBAY_WRITE_HEADER=1 cargo test -p forebay-c --test interface header"
    );
}

/// The public structures of the header with their fields.
fn structures(header: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::<_, Vec<String>>::new();
    let mut inside = None;
    for line in header.lines().map(str::trim) {
        let begin = line.strip_prefix("typedef struct ");
        if let Some(name) = begin.and_then(|line| line.strip_suffix(" {")) {
            inside = Some(found.entry(name.to_owned()).or_default());
        } else if line.starts_with('}') {
            inside = None;
        } else if let Some(fields) = inside.as_mut().filter(|_| !line.starts_with("//")) {
            let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            // The last word that is no length of an array.
            let name = words.rfind(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
            fields.extend(name.map(str::to_owned));
        }
    }
    found
}

/// The public constants with a number, except that of the interface.
fn constants(header: &str) -> impl Iterator<Item = &str> {
    header.lines().filter_map(|line| {
        let line = line.trim();
        let (name, _) = match line.strip_prefix("#define ") {
            Some(define) => define.split_once(' ').filter(|it| !it.1.starts_with('"'))?,
            None => line.split_once(" = ").filter(|it| it.1.ends_with(','))?,
        };
        let is_one = name.starts_with("FOREBAY_") && name != "FOREBAY_INTERFACE";
        is_one.then_some(name)
    })
}

/// The size of each structure and the offsets of its fields, as the compiler lays them out, and the constants: a line each.
fn layouts(compiler: &str) -> Vec<String> {
    let header = made();
    let mut lines = String::new();
    for (structure, fields) in structures(&header) {
        lines += &format!("  printf(\"{structure} %zu:\", sizeof(struct {structure}));\n");
        for field in fields {
            lines +=
                &format!("  printf(\" {field} %zu\", offsetof(struct {structure}, {field}));\n");
        }
        lines += "  putchar('\\n');\n";
    }
    for constant in constants(&header) {
        lines += &format!("  printf(\"{constant} %lld\\n\", (long long){constant});\n");
    }
    let folder = Folder::new();
    folder.file("forebay.h", &header);
    let text = format!(
        "#include <forebay.h>\n#include <stdio.h>\nint main(void) {{\n  printf(\"%d\\n\", FOREBAY_INTERFACE);\n{lines}  return 0;\n}}\n"
    );
    let (source, program) = (folder.file("layout.c", text), folder.path("layout"));
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(["-o", &program, &source]);
    output(command.args(["-I", &folder.path("")]));
    let printed = output(&mut Command::new(program));
    printed.lines().map(str::to_owned).collect()
}

/// Sizes and offsets are in `layouts/N.txt`, N being the number of the interface. A change of a structure needs a new number. A new
/// structure needs a new line, which `FOREBAY_WRITE_HEADER=1` writes; it never changes a line.
#[test]
fn a_layout_changes_only_with_the_number_of_the_interface() {
    let Some(compiler) = compiler() else { return };
    let layouts = layouts(&compiler);
    let (number, layouts) = layouts.split_first().unwrap();
    let path = root().join(format!("tests/layouts/{number}.txt"));
    let committed = fs::read_to_string(&path).unwrap_or_default();
    for line in committed.lines() {
        let name = line.split(' ').next().unwrap();
        assert!(
            layouts.iter().any(|layout| layout == line),
            "{name} has changed: give the interface a new number (FOREBAY_INTERFACE)"
        );
    }
    let layouts = layouts.join("\n") + "\n";
    if env::var_os("FOREBAY_WRITE_HEADER").is_some() {
        fs::write(&path, layouts).unwrap();
    } else {
        assert_eq!(
            committed, layouts,
            "a new structure: write it with FOREBAY_WRITE_HEADER=1"
        );
    }
}
