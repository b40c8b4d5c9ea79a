//! Values with the behaviour of Python's.

use core::cell::RefCell;
use core::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::parser::{For, Macro};
use super::run::Run;
use super::{DEEPEST, Fault, Result};

/// A value. A copy shares its contents.
#[derive(Clone, Debug)]
pub(crate) enum Value<'s> {
    /// An undefined value, with its name.
    Undefined(&'s str),
    /// `None`
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    List(Rc<List<'s>>),
    Map(Rc<Map<'s>>),
    /// The result of `namespace`, which is the only value that can change.
    Namespace(Rc<RefCell<BTreeMap<&'s str, Self>>>),
    /// The variable `loop`.
    Loop(Rc<Loop<'s>>),
    /// A macro, and the scope in which it was defined.
    Macro(Rc<Macro<'s>>, usize),
    /// A function, or a method with the value that it belongs to.
    Function(&'s str, Option<Rc<Self>>),
}

/// A list or a tuple.
#[derive(Debug)]
pub(crate) struct List<'s> {
    pub(super) items: Vec<Value<'s>>,
    pub(super) tuple: bool,
    depth: u8,
}

/// A dictionary in the order in which its keys were added.
#[derive(Debug)]
pub(crate) struct Map<'s> {
    pub(super) entries: Vec<(Value<'s>, Value<'s>)>,
    depth: u8,
}

/// The position of a loop.
#[derive(Debug)]
pub(crate) struct Loop<'s> {
    pub(super) index: usize,
    pub(super) length: usize,
    pub(super) previous: Option<Value<'s>>,
    pub(super) next: Option<Value<'s>>,
    pub(super) depth: usize,
    /// The body that a recursive loop repeats, and the scope around it.
    pub(super) again: Option<(Rc<For<'s>>, usize)>,
}

impl From<&str> for Value<'_> {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl Value<'_> {
    /// A list of values.
    pub(crate) fn list(items: Vec<Self>) -> Result<Self> {
        Self::sequence(items, false)
    }

    /// A list, or a tuple.
    pub(super) fn sequence(items: Vec<Self>, tuple: bool) -> Result<Self> {
        let depth = deeper(items.iter())?;
        Ok(Self::List(Rc::new(List { items, tuple, depth })))
    }

    /// A dictionary, whose keys differ.
    pub(crate) fn map(entries: Vec<(Self, Self)>) -> Result<Self> {
        let depth = deeper(entries.iter().flat_map(|(key, value)| [key, value]))?;
        Ok(Self::Map(Rc::new(Map { entries, depth })))
    }

    /// The type's name in Python.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
            Self::List(list) if list.tuple => "tuple",
            Self::List(_) => "list",
            Self::Map(_) => "dict",
            Self::Namespace(_) => "Namespace",
            Self::Loop(_) => "LoopContext",
            Self::Macro(..) => "Macro",
            Self::Function(..) => "function",
        }
    }

    /// The error for a value that is not of this kind.
    pub(super) fn is_no(&self, kind: &str) -> Fault {
        Fault::new(match self {
            Self::Undefined(name) => format!("{name:?} is undefined"),
            other => format!("a {} is no {kind}", other.kind()),
        })
    }

    pub(super) fn truth(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => !map.entries.is_empty(),
            _ => true,
        }
    }

    /// A whole number. True is 1.
    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Self::Bool(truth) => Some((*truth).into()),
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn float(&self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(*number),
            other => other.int().map(|number| number as f64),
        }
    }

    pub(super) fn defined(self) -> Option<Self> {
        if matches!(self, Self::Undefined(_)) { None } else { Some(self) }
    }

    /// Whether a list or a namespace may hold it.
    pub(super) fn assert_plain(&self) -> Result<()> {
        match self {
            Self::Namespace(_) | Self::Loop(_) | Self::Function(_, Some(_)) => {
                Err(Fault::new(format!("a value cannot hold a {}", self.kind())))
            }
            _ => Ok(()),
        }
    }
}

/// The depth of a container of these values.
fn deeper<'v, 's: 'v>(mut values: impl Iterator<Item = &'v Value<'s>>) -> Result<u8> {
    let deepest = values.try_fold(0, |deepest: u8, value| {
        value.assert_plain()?;
        Ok(deepest.max(match value {
            Value::List(list) => list.depth,
            Value::Map(map) => map.depth,
            _ => 0,
        }))
    })?;
    if deepest >= DEEPEST {
        return Err(Fault::new(format!("lists are nested more than {DEEPEST} times")));
    }
    Ok(deepest + 1)
}

impl<'s> Run<'s> {
    /// Whether two values are equal, as Python says.
    pub(super) fn equal(&mut self, a: &Value<'s>, b: &Value<'s>) -> Result<bool> {
        self.charge(0)?;
        Ok(match (a, b) {
            (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
            (Value::Text(a), Value::Text(b)) => {
                if a.len() == b.len() {
                    self.charge(a.len())?;
                }
                a == b
            }
            (Value::List(a), Value::List(b)) => {
                if a.tuple != b.tuple || a.items.len() != b.items.len() {
                    return Ok(false);
                }
                for (a, b) in a.items.iter().zip(&b.items) {
                    if !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Map(a), Value::Map(b)) => {
                if a.entries.len() != b.entries.len() {
                    return Ok(false);
                }
                for (key, value) in &a.entries {
                    let Some(other) = self.entry(b, key)? else { return Ok(false) };
                    if !self.equal(value, &other)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Namespace(a), Value::Namespace(b)) => Rc::ptr_eq(a, b),
            (Value::Macro(a, _), Value::Macro(b, _)) => Rc::ptr_eq(a, b),
            _ => match (a.int(), b.int()) {
                (Some(a), Some(b)) => a == b,
                _ => a.float().is_some_and(|a| b.float() == Some(a)),
            },
        })
    }

    /// Which of two values comes first.
    pub(super) fn order(&mut self, a: &Value<'s>, b: &Value<'s>) -> Result<Ordering> {
        self.charge(0)?;
        match (a, b) {
            (Value::Text(a), Value::Text(b)) => {
                self.charge(a.len().min(b.len()))?;
                Ok(a.cmp(b))
            }
            (Value::List(a), Value::List(b)) if a.tuple == b.tuple => {
                for (a, b) in a.items.iter().zip(&b.items) {
                    if !self.equal(a, b)? {
                        return self.order(a, b);
                    }
                }
                Ok(a.items.len().cmp(&b.items.len()))
            }
            _ => {
                let order = match (a.int(), b.int()) {
                    (Some(a), Some(b)) => Some(a.cmp(&b)),
                    _ => a.float().zip(b.float()).and_then(|(a, b)| a.partial_cmp(&b)),
                };
                order.ok_or_else(|| {
                    Fault::new(format!("{} and {} cannot be compared", a.kind(), b.kind()))
                })
            }
        }
    }

    /// The place of a key among the entries.
    pub(super) fn place(
        &mut self,
        entries: &[(Value<'s>, Value<'s>)],
        key: &Value<'s>,
    ) -> Result<Option<usize>> {
        for (at, (own, _)) in entries.iter().enumerate() {
            if self.equal(own, key)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The value of a key.
    pub(super) fn entry(&mut self, map: &Map<'s>, key: &Value<'s>) -> Result<Option<Value<'s>>> {
        let entry = self.place(&map.entries, key)?.and_then(|at| map.entries.get(at));
        Ok(entry.map(|(_, value)| value.clone()))
    }

    /// Whether a value holds another.
    pub(super) fn contains(&mut self, whole: &Value<'s>, part: &Value<'s>) -> Result<bool> {
        match whole {
            Value::Text(text) => {
                let Value::Text(part) = part else { return Err(part.is_no("string")) };
                self.charge(text.len() + part.len())?;
                Ok(text.contains(&**part))
            }
            Value::Map(map) => Ok(self.entry(map, part)?.is_some()),
            other => {
                for item in self.items(other)? {
                    if self.equal(&item, part)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// The items that a loop over a value visits.
    pub(super) fn items(&mut self, value: &Value<'s>) -> Result<Vec<Value<'s>>> {
        match value {
            Value::Undefined(_) => Ok(Vec::new()),
            Value::List(list) => {
                self.charge(list.items.len() * size_of::<Value<'_>>())?;
                Ok(list.items.clone())
            }
            Value::Map(map) => {
                self.charge(map.entries.len() * size_of::<Value<'_>>())?;
                Ok(map.entries.iter().map(|(key, _)| key.clone()).collect())
            }
            Value::Text(text) => {
                // Each character becomes a text of its own, with its counts and its place in the list.
                self.charge(text.len() * 64)?;
                let mut buffer = [0; 4];
                Ok(text.chars().map(|c| Value::from(&*c.encode_utf8(&mut buffer))).collect())
            }
            other => Err(other.is_no("list")),
        }
    }

    /// Makes a text. Its bytes are charged.
    pub(super) fn made(&mut self, text: &str) -> Result<Value<'s>> {
        self.charge(text.len())?;
        Ok(Value::from(text))
    }

    /// Makes a list. Its places are charged.
    pub(super) fn listed(&mut self, items: Vec<Value<'s>>) -> Result<Value<'s>> {
        self.sequence(items, false)
    }

    /// Makes a list or a tuple. Its places are charged.
    pub(super) fn sequence(&mut self, items: Vec<Value<'s>>, tuple: bool) -> Result<Value<'s>> {
        self.charge(items.len() * size_of::<Value<'_>>())?;
        Value::sequence(items, tuple)
    }
}
