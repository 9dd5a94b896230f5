//! The documents are true where a test can see it. The tables of modules in ARCHITECTURE.md and in the READMEs of the crates outside the default members: which module
//! imports which, and which files hold `unsafe`. Links: each leads to a file, and to a heading in it. And the files of a crate keep an
//! order: none of them import each other in a circle.

mod circles;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

#[derive(Debug, Default)]
struct Room {
    imports: BTreeSet<String>,
    files_with_unsafe: BTreeSet<String>,
}

/// The words in backticks of a table's cell.
fn quoted(cell: &str) -> BTreeSet<String> {
    let words = cell.split('`').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

/// The rooms of `krate`, as this heading of a page has them.
fn promised(root: &Path, page: &str, heading: &str) -> BTreeMap<String, Room> {
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let (_, section) = text.split_once(heading).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("| `"));
    let rows = rows.take_while(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').collect();
        let room = Room {
            imports: quoted(cells[3]),
            files_with_unsafe: quoted(cells[4]),
        };
        (quoted(cells[1]).pop_first().unwrap(), room)
    })
    .collect()
}

/// Adds the files below `folder` whose names end in `.extension`.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// The first names after each `crate::` in `code`, groups in braces included.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        if let Some(group) = part.strip_prefix('{') {
            let mut depth = 0;
            let mut name = String::new();
            for letter in group.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => found.extend([std::mem::take(&mut name)]),
                    _ if depth == 0 => name.push(letter),
                    _ => {}
                }
            }
            found.insert(name);
        } else {
            found.insert(part.to_owned());
        }
    }
    let first_word = |name: &String| {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        name.trim().split(word).next().unwrap_or("").to_owned()
    };
    let rooms = found.iter().map(first_word);
    rooms
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect()
}

/// Without comments, and without the tests, which may import what they like.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("\nmod tests {").next().unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    ["tests", "testing", "models"]
        .iter()
        .any(|end| name.ends_with(end))
}

#[test]
fn rooms_import_and_hold_what_the_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (krate, least) in [
        ("forebay", 6),
        ("forebay-net", 6),
        ("forebay-io", 1),
        ("forebay-archive", 4),
        ("forebay-pcap", 4),
        ("forebay-c", 4),
        ("forebay-py", 4),
    ] {
        let rooms = match krate {
            "forebay-archive" | "forebay-pcap" | "forebay-c" | "forebay-py" => {
                promised(&root, &format!("crates/{krate}/README.md"), "## Modules")
            }
            _ => promised(&root, "ARCHITECTURE.md", &format!("### `{krate}`")),
        };
        assert!(rooms.len() > least, "the table of {krate} was not found");
        let source = root.join("crates").join(krate).join("src");
        let mut sources = Vec::new();
        files(&source, "rs", &mut sources);
        let mut seen = BTreeSet::new();
        for path in sources.iter().filter(|path| !is_test(path)) {
            let inside = path.strip_prefix(&source).unwrap();
            let first = Path::new(inside.iter().next().unwrap());
            let name = first.file_stem().unwrap().to_str().unwrap();
            if name == "lib" {
                continue;
            }
            let room = rooms
                .get(name)
                .unwrap_or_else(|| panic!("{krate}: {name} is missing in the table of modules"));
            seen.insert(name.to_owned());
            let code = code(path);
            for import in imports(&code) {
                let allowed = import == name || import == "error" || room.imports.contains(&import);
                assert!(allowed, "{krate}: {} imports {import}", inside.display());
            }
            let file = inside
                .strip_prefix(name)
                .unwrap_or(inside)
                .to_str()
                .unwrap();
            let is_unsafe = code.contains("allow(unsafe_code)");
            assert_eq!(
                is_unsafe,
                room.files_with_unsafe.contains(file),
                "{krate}: {} and unsafe",
                inside.display()
            );
            assert!(
                is_unsafe || !code.contains("unsafe {"),
                "{krate}: {}",
                inside.display()
            );
        }
        assert_eq!(
            seen,
            rooms.keys().cloned().collect(),
            "{krate}: rooms that are gone"
        );
    }
}

/// The folders of the crates, by name.
fn crates(root: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(root.join("crates")).unwrap();
    let mut found: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(found.len() > 6, "the crates were not found");
    found
}

/// The files of the crate in `folder`, tests left out: paths inside its folder `src`, each with its code.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let source = folder.join("src");
    let mut paths = Vec::new();
    files(&source, "rs", &mut paths);
    paths.retain(|path| !is_test(path));
    let name = |path: &Path| {
        path.strip_prefix(&source)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    paths.iter().map(|path| (name(path), code(path))).collect()
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in crates(&root) {
        let circles = circles::circles(&sources(&folder));
        if !circles.is_empty() {
            let krate = folder.file_name().unwrap().to_str().unwrap().to_owned();
            let imports: Vec<_> = circles.into_iter().map(|circle| circle.imports).collect();
            found.push((krate, imports));
        }
    }
    assert!(
        found.is_empty(),
        "files that import each other in circles: {found:#?}"
    );
}

#[test]
fn a_name_stands_for_at_most_two_types_of_a_crate() {
    // What they are called everywhere.
    let of_the_field = ["Sender", "Receiver", "Reader", "RecvError", "State"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in crates(&root) {
        let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, code) in sources(&folder) {
            for line in code.lines() {
                let words: Vec<_> = line
                    .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .collect();
                let is_kind = |word: &&str| matches!(*word, "struct" | "enum" | "trait" | "union");
                let is_first = |before: &[&str]| {
                    let rest = ["", "pub", "crate", "super", "in", "unsafe"];
                    before.iter().all(|word| rest.contains(word))
                };
                if let Some(at) = words.iter().position(is_kind)
                    && is_first(&words[..at])
                    && let Some(named) = words.get(at + 1).filter(|word| !word.is_empty())
                {
                    types
                        .entry((*named).to_owned())
                        .or_default()
                        .insert(name.clone());
                }
            }
        }
        assert!(!types.is_empty(), "no type was found in {folder:?}");
        types.retain(|name, files| files.len() > 2 && !of_the_field.contains(&name.as_str()));
        found.extend(types);
    }
    assert!(found.is_empty(), "names of more than two types: {found:#?}");
}

#[test]
fn imports_are_found_in_paths_and_in_groups() {
    let code = "use crate::{Error, memory::{A, B}, ring::spsc};\nlet x = crate::sys::page_size();";
    let expected = ["memory", "ring", "sys"].map(str::to_owned);
    assert_eq!(imports(code), BTreeSet::from(expected));
}

/// The anchors of the headings of a page, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn links_in_documents_lead_to_files_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = Vec::new();
    for folder in ["docs", "fuzz", "contrib"] {
        files(&root.join(folder), "md", &mut pages);
    }
    for folder in std::fs::read_dir(root.join("crates")).unwrap() {
        pages.push(folder.unwrap().path().join("README.md"));
    }
    for entry in std::fs::read_dir(&root).unwrap() {
        pages.push(entry.unwrap().path());
    }
    let is_page = |path: &PathBuf| path.extension().is_some_and(|e| e == "md") && path.is_file();
    pages.retain(is_page);
    assert!(pages.len() > 60, "the pages were not found");
    let mut dead = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        for (_, rest) in text
            .match_indices("](")
            .map(|(at, _)| text.split_at(at + 2))
        {
            let link = rest.split(')').next().unwrap();
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue; // another site, or not a link
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                _ => page.parent().unwrap().join(file),
            };
            let leads = match std::fs::read_to_string(&target) {
                Ok(text) if !anchor.is_empty() => anchors(&text).contains(anchor),
                _ => target.exists(),
            };
            if !leads {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere: {dead:#?}");
}
