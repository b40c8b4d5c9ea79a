//! Which functions move to the second module: a list of paths.

/// The list. Each line is the path of a crate, a module, a type or a function. A line that begins with `!` excepts a path, and one that
/// begins with `#` is a remark.
pub struct Late {
    paths: Vec<String>,
    excepted: Vec<String>,
}

impl Late {
    /// Reads the list.
    pub fn read(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (excepted, paths): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with('!'));
        let excepted = excepted.into_iter().map(|line| line[1..].to_owned()).collect();
        Self { paths: paths.into_iter().map(str::to_owned).collect(), excepted }
    }

    /// Whether a function moves: its path has one of the listed paths in it, and no excepted one.
    pub fn holds(&self, name: &str) -> bool {
        let path = without_arguments(name);
        let has = |paths: &[String]| paths.iter().any(|listed| has_path(&path, listed));
        has(&self.paths) && !has(&self.excepted)
    }
}

/// A function's name without generic arguments: "<a::B as c::D>::e" for "<a::B<f::G> as c::D>::e::<h::I>".
///
/// What a generic function is instantiated for does not tell where it belongs: equal instances are one function.
fn without_arguments(name: &str) -> String {
    let mut path = String::new();
    let (mut depth, mut before) = (0_usize, ' ');
    for c in name.chars() {
        let follows_a_name = before.is_alphanumeric() || matches!(before, '_' | ':');
        if c == '<' && (depth > 0 || follows_a_name) {
            depth += 1;
            path.truncate(path.trim_end_matches("::").len());
        }
        if depth == 0 {
            path.push(c);
        }
        let closes = c == '>' && before != '-'; // no arrow
        depth -= usize::from(closes && depth > 0);
        before = c;
    }
    path
}

/// Whether a path stands in a name: "a::b" in "<a::b::C as core::clone::Clone>::clone".
fn has_path(name: &str, path: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    name.match_indices(path).any(|(start, _)| {
        let (before, after) = (&name[..start], &name[start + path.len()..]);
        !before.ends_with(|c| is_name(c) || c == ':') && !after.starts_with(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_moves_by_its_own_path_but_not_by_its_arguments() {
        let late = Late::read("# remark\nzip\nmodels\n!models::step\n");
        for name in [
            "zip::read::open",
            "<models::Model as core::clone::Clone>::clone",
            "<&zip::File>::f::<egui::Ui>",
            "<egui::Ui as zip::T<a::B>>::f",
        ] {
            assert!(late.holds(name), "{name}");
        }
        for name in [
            "core::ptr::drop_in_place::<models::Model>",
            "<alloc::vec::Vec<zip::File> as core::ops::Drop>::drop",
            "<core::F<fn(a::B) -> zip::C>>::call",
            "core::iter::zip",
            "unzip::f",
            "models::step",
            "models::step::f",
        ] {
            assert!(!late.holds(name), "{name}");
        }
        assert!(late.holds("models::steps"));
        assert_eq!(
            without_arguments("<a::B<f::G> as c::D>::e::<h::I>::{closure#0}"),
            "<a::B as c::D>::e::{closure#0}"
        );
    }
}
