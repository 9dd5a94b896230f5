//! Which files of a crate import each other in a circle, read from the text of the files.
//!
//! A path is followed to the file that defines its item, also through re-exports. These do not count as imports: `mod` lines,
//! `pub use` lines whose names the file itself does not use, and calls of methods, whose file the text does not name.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A file's module inside the crate, such as `["session", "output"]`. The root of the crate is empty.
type Module = Vec<String>;

#[derive(Debug)]
struct File {
    name: String,
    /// The names that its `use` lines bring in or hand on, and the paths that these stand for.
    names: BTreeMap<String, Module>,
    /// What `use …::*` lines bring in or hand on.
    globs: Vec<Module>,
    /// The items that it defines.
    items: BTreeSet<String>,
    /// The paths in its code, and those of its `use` lines that the file itself uses.
    paths: Vec<Module>,
}

/// What the files take from each other: the file that takes, the file that defines, and the names.
type Arrows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

/// A set of files. From each, imports lead to each other one.
pub struct Circle {
    pub files: Vec<String>,
    /// `a.rs takes Name from b.rs`, for each import inside the circle.
    pub imports: Vec<String>,
}

/// The circles among `files`: paths inside the crate's folder `src`, each with its code.
pub fn circles(files: &[(String, String)]) -> Vec<Circle> {
    let modules: BTreeMap<Module, File> = files
        .iter()
        .map(|(name, code)| (module(name), File::read(name, code)))
        .collect();
    let mut arrows = Arrows::new();
    for (place, file) in &modules {
        let taken = arrows.entry(&file.name).or_default();
        for path in &file.paths {
            let Some(path) = absolute(&modules, place, path, 0) else {
                continue;
            };
            let Some((target, item)) = defining(&modules, &path, 0) else {
                continue;
            };
            let target = modules[&target].name.as_str();
            if target != file.name {
                taken.entry(target).or_default().insert(item);
            }
        }
    }
    let circle = |files: Vec<&str>| {
        let mut imports = Vec::new();
        for file in &files {
            for (target, names) in arrows[file]
                .iter()
                .filter(|(target, _)| files.contains(target))
            {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                imports.push(format!("{file} takes {} from {target}", names.join(", ")));
            }
        }
        let files = files.into_iter().map(str::to_owned).collect();
        Circle { files, imports }
    };
    groups(&arrows).into_iter().map(circle).collect()
}

/// The module that the file of this name is.
fn module(name: &str) -> Module {
    let path = Path::new(name).with_extension("");
    let mut parts: Module = path
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    if matches!(parts.last().map(String::as_str), Some("mod"))
        || matches!(name, "lib.rs" | "main.rs")
    {
        parts.pop();
    }
    parts
}

/// How far names are followed through re-exports. A longer chain is one of names that stand for themselves.
const FAR: usize = 16;

/// `path`, as the module at `place` writes it, from the root of the crate. None for other crates.
fn absolute(
    modules: &BTreeMap<Module, File>,
    place: &Module,
    path: &[String],
    depth: usize,
) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let mut from = match first.as_str() {
        "crate" => Module::new(),
        "self" => place.clone(),
        "super" => place[..place.len().checked_sub(1)?].to_vec(),
        name => {
            let child: Module = place.iter().chain([first]).cloned().collect();
            let file = modules.get(place)?;
            if modules.contains_key(&child) {
                child
            } else if let Some(target) = file.names.get(name).filter(|target| target != &path) {
                if depth == FAR {
                    return None;
                }
                absolute(modules, place, target, depth + 1)?
            } else {
                return None;
            }
        }
    };
    for part in rest {
        if part == "super" {
            from.pop()?;
        } else if part != "self" {
            from.push(part.clone());
        }
    }
    Some(from)
}

/// The module whose file defines the item at `path`, which begins at the root, and the item's name. None for a module itself.
fn defining(
    modules: &BTreeMap<Module, File>,
    path: &[String],
    depth: usize,
) -> Option<(Module, String)> {
    let known = (0..=path.len())
        .rev()
        .find(|&n| modules.contains_key(&path[..n]))?;
    let (place, rest) = path.split_at(known);
    let (name, rest) = rest.split_first()?;
    let place = place.to_vec();
    let file = &modules[&place];
    let here = Some((place.clone(), name.clone()));
    if file.items.contains(name) || depth == FAR {
        return here;
    }
    if let Some(target) = file.names.get(name) {
        let mut path = absolute(modules, &place, target, 0)?;
        path.extend(rest.iter().cloned());
        return defining(modules, &path, depth + 1);
    }
    let globs = file
        .globs
        .iter()
        .filter_map(|target| absolute(modules, &place, target, 0));
    let mut globs = globs.filter(|path| {
        modules
            .get(path)
            .is_some_and(|file| file.items.contains(name))
    });
    globs.next().map(|path| (path, name.clone())).or(here)
}

/// The sets of more than one file from which each leads to each.
fn groups<'a>(arrows: &Arrows<'a>) -> Vec<Vec<&'a str>> {
    let reached = |from| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut next: Vec<&str> = vec![from];
        while let Some(file) = next.pop() {
            let targets = arrows.get(file).into_iter().flat_map(BTreeMap::keys);
            next.extend(targets.filter(|to| seen.insert(to)));
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|&file| (file, reached(file))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    for (file, others) in &reach {
        let together = others.iter().filter(|other| reach[**other].contains(file));
        let group: Vec<&str> = together.copied().collect();
        if group.len() > 1 && !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

impl File {
    fn read(name: &str, code: &str) -> Self {
        let words = words(code);
        let mut file = Self {
            name: name.to_owned(),
            names: BTreeMap::new(),
            globs: Vec::new(),
            items: BTreeSet::new(),
            paths: Vec::new(),
        };
        let mut public = Vec::new();
        let mut seen = BTreeSet::new();
        let mut at = 0;
        while at < words.len() {
            match words[at].as_str() {
                "use" => {
                    let hands_on = at > 0 && (words[at - 1] == "pub" || words[at - 1] == ")");
                    let mut leaves = Vec::new();
                    at = tree(&words, at + 1, &[], &mut leaves);
                    for (path, alias) in leaves {
                        if alias == "*" {
                            file.globs.push(path.clone());
                            continue;
                        }
                        file.names.insert(alias.clone(), path.clone());
                        match hands_on {
                            true => public.push((path, alias)),
                            false => file.paths.push(path),
                        }
                    }
                }
                "struct" | "enum" | "trait" | "type" | "union" | "fn" | "const" | "static"
                | "macro_rules" => {
                    let named = words[at + 1..]
                        .iter()
                        .find(|word| !matches!(word.as_str(), "mut" | "!" | "unsafe" | "fn"));
                    file.items.extend(named.cloned());
                    at += 1;
                }
                word if is_name(word) => {
                    let from = at;
                    while words.get(at + 1).is_some_and(|word| word == "::")
                        && words.get(at + 2).is_some_and(|word| is_name(word))
                    {
                        at += 2;
                    }
                    seen.insert(word.to_owned());
                    if at > from && (from == 0 || words[from - 1] != "::") {
                        file.paths
                            .push(words[from..=at].iter().step_by(2).cloned().collect());
                    }
                    at += 1;
                }
                _ => at += 1,
            }
        }
        let used = public.into_iter().filter(|(_, alias)| seen.contains(alias));
        file.paths.extend(used.map(|(path, _)| path));
        file
    }
}

/// The paths of the `use` tree at `at`, each with the name that it gets. Returns where the tree ends.
fn tree(
    words: &[String],
    mut at: usize,
    before: &[String],
    found: &mut Vec<(Module, String)>,
) -> usize {
    let mut path = before.to_vec();
    loop {
        match words.get(at).map_or(";", String::as_str) {
            "::" => at += 1,
            "{" => {
                at += 1;
                while words.get(at).is_some_and(|word| word != "}") {
                    at = tree(words, at, &path, found);
                    at += usize::from(words.get(at).is_some_and(|word| word == ","));
                }
                return at + 1;
            }
            "*" => {
                found.push((path, "*".to_owned()));
                return at + 1;
            }
            "as" => {
                found.push((path, words[at + 1].clone()));
                return at + 2;
            }
            word if is_name(word) => {
                // `self` in a group is the module in front of the group.
                if word != "self" || path.is_empty() {
                    path.push(word.to_owned());
                }
                at += 1;
            }
            _ => {
                if let Some(name) = path.last().cloned() {
                    found.push((path, name));
                }
                return at;
            }
        }
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The names and marks of `code`, which has no comments. Text in quotes is left out.
fn words(code: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut letters = code.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            let mut word = letter.to_string();
            while let Some(next) = letters.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                word.push(next);
            }
            found.push(word);
        } else if letter == '"' {
            // What precedes it in r#"…"# ends the text, too.
            let marks = found.iter().rev().take_while(|word| *word == "#").count();
            let is_raw = found
                .iter()
                .rev()
                .nth(marks)
                .is_some_and(|word| matches!(word.as_str(), "r" | "br" | "cr"));
            while let Some(next) = letters.next() {
                if next == '\\' && !is_raw {
                    letters.next();
                } else if next == '"'
                    && (!is_raw || (0..marks).all(|_| letters.next_if_eq(&'#').is_some()))
                {
                    break;
                }
            }
        } else if letter == '\'' {
            // A letter in quotes, or a lifetime.
            let next = letters.next();
            if next == Some('\\') || letters.peek() == Some(&'\'') {
                letters
                    .by_ref()
                    .skip(usize::from(next == Some('\\')))
                    .find(|c| *c == '\'');
            }
        } else if letter == ':' && letters.next_if_eq(&':').is_some() {
            found.push("::".to_owned());
        } else if !letter.is_whitespace() {
            found.push(letter.to_string());
        }
    }
    found
}

fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let owned: Vec<_> = files
        .iter()
        .map(|(name, code)| ((*name).to_owned(), (*code).to_owned()))
        .collect();
    circles(&owned)
        .into_iter()
        .map(|circle| circle.files)
        .collect()
}

#[test]
fn a_circle_of_two_files_is_found_also_through_a_re_export_and_a_path_in_the_code() {
    let root = ("lib.rs", "pub mod a;\npub mod b;");
    let takes_b = (
        "a.rs",
        "use crate::b::{self, B as Other, c::{D}};\npub struct A(Other);",
    );
    let c = ("b/c.rs", "pub struct D;");
    let takes_a = (
        "b/mod.rs",
        "mod c;\npub struct B;\nfn f() -> bool { super::a::A::is(\"crate::x\", 'c', r#\"\"\"#) }",
    );
    assert_eq!(of(&[root, takes_b, takes_a, c]), [["a.rs", "b/mod.rs"]]);
    let takes_nothing = ("b/mod.rs", "mod c;\npub use c::D;\npub struct B;");
    assert!(of(&[root, takes_b, takes_nothing, c]).is_empty());
    let hands_on = ("lib.rs", "pub mod a;\npub mod b;\npub use a::A;");
    let takes_root = ("b/c.rs", "pub struct D(crate::A);");
    assert_eq!(
        of(&[hands_on, takes_b, takes_nothing, takes_root]),
        [["a.rs", "b/c.rs"]]
    );
}

#[test]
fn a_module_that_only_declares_and_hands_on_its_files_is_in_no_circle() {
    let parent = (
        "a/mod.rs",
        "mod b;\npub use b::B;\npub(crate) use b::C;\npub struct A;",
    );
    let child = (
        "a/b.rs",
        "use super::A;\npub struct B(A);\npub(crate) struct C;",
    );
    assert!(of(&[("lib.rs", "mod a;"), parent, child]).is_empty());
    let uses = ("a/mod.rs", "mod b;\npub use b::B;\npub struct A(Box<B>);");
    assert_eq!(
        of(&[("lib.rs", "mod a;"), uses, child]),
        [["a/b.rs", "a/mod.rs"]]
    );
}
