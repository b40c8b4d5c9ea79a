//! The statements and expressions of a template, evaluated.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::parser::{Arguments, Body, Expr, For, Macro, Postfix, Statement};
use super::value::{Loop, Value};
use super::{DEEP, Fault, Result};

/// The most bytes of text for a step.
const BYTES: usize = 32;

/// The variables of a block, which sees those of the block around it.
struct Scope<'s> {
    variables: BTreeMap<&'s str, Value<'s>>,
    around: usize,
}

/// How to continue after a statement.
enum Flow {
    Next,
    Continue,
    Break,
}

/// The values of a call.
#[derive(Default)]
pub(super) struct CallArguments<'s> {
    pub(super) positional: Vec<Value<'s>>,
    pub(super) named: Vec<(&'s str, Value<'s>)>,
}

impl<'s> CallArguments<'s> {
    /// The value at this place, or of this name.
    pub(super) fn get(&self, at: usize, name: &str) -> Option<Value<'s>> {
        let named = || self.named.iter().find(|(own, _)| *own == name).map(|(_, value)| value);
        self.positional.get(at).or_else(named).cloned()
    }

    /// Asserts that all values are of these parameters.
    pub(super) fn assert_only(&self, names: &[&str]) -> Result<()> {
        if let Some((name, _)) = self.named.iter().find(|(name, _)| !names.contains(name)) {
            return Err(Fault::new(format!("no parameter has the name {name:?}")));
        }
        let (count, most) = (self.positional.len(), names.len());
        if count > most {
            return Err(Fault::new(format!("{count} values are given, and {most} are the most")));
        }
        Ok(())
    }
}

/// A template during its application.
pub(super) struct Run<'s> {
    scopes: Vec<Scope<'s>>,
    /// The innermost scope.
    here: usize,
    steps: u64,
    depth: usize,
    pub(super) now: i64,
}

impl<'s> Run<'s> {
    pub(super) fn new(
        values: impl IntoIterator<Item = (&'s str, Value<'s>)>,
        steps: u64,
        now: i64,
    ) -> Self {
        let functions = ["range", "dict", "namespace", "raise_exception", "strftime_now"];
        let functions = functions.map(|name| (name, Value::Function(name, None)));
        let variables = functions.into_iter().chain(values).collect();
        Self { scopes: vec![Scope { variables, around: 0 }], here: 0, steps, depth: 0, now }
    }

    /// Takes a step, and one for each 32 bytes that are written or read.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<()> {
        let left = self.steps.checked_sub(1 + (bytes / BYTES) as u64);
        self.steps = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Fault::Steps)
    }

    /// Goes one level deeper.
    fn nested<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEEP {
            return Err(Fault::new("blocks, expressions and macros are nested too deep"));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// Opens a scope within another.
    fn scoped<T>(&mut self, around: usize, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outside = self.here;
        self.here = self.scopes.len();
        self.scopes.push(Scope { variables: BTreeMap::new(), around });
        let result = run(self);
        self.scopes.truncate(self.here);
        self.here = outside;
        result
    }

    fn variable(&mut self, name: &'s str) -> Result<Value<'s>> {
        let mut scope = self.here;
        while let Some(Scope { variables, around }) = self.scopes.get(scope) {
            if let Some(value) = variables.get(name) {
                return Ok(value.clone());
            }
            if *around == scope {
                break;
            }
            scope = *around;
            self.charge(0)?;
        }
        Ok(Value::Undefined(name))
    }

    fn define(&mut self, name: &'s str, value: Value<'s>) {
        let here = self.here;
        if let Some(scope) = self.scopes.get_mut(here) {
            scope.variables.insert(name, value);
        }
    }

    /// The text of a whole template.
    pub(super) fn template(mut self, body: &Body<'s>) -> Result<String> {
        let mut out = String::new();
        self.body(body, &mut out)?;
        Ok(out)
    }

    fn body(&mut self, body: &Body<'s>, out: &mut String) -> Result<Flow> {
        self.nested(|run| {
            for (line, statement) in body {
                let flow = run.statement(statement, out).map_err(|fault| fault.on(*line))?;
                if !matches!(flow, Flow::Next) {
                    return Ok(flow);
                }
            }
            Ok(Flow::Next)
        })
    }

    fn statement(&mut self, statement: &Statement<'s>, out: &mut String) -> Result<Flow> {
        self.charge(0)?;
        match statement {
            Statement::Data(data) => self.write(out, data)?,
            Statement::Print(value) => {
                let value = self.value(value)?;
                self.write_text(out, &value)?;
            }
            Statement::For(each) => {
                let over = self.value(&each.over)?;
                self.for_loop(each, &over, 0, self.here, out)?;
            }
            Statement::If(cases, otherwise) => {
                for (condition, body) in cases {
                    if self.value(condition)?.truth() {
                        return self.body(body, out);
                    }
                }
                return self.body(otherwise, out);
            }
            Statement::Set(target, value) => {
                let value = self.value(value)?;
                self.assign(target, value)?;
            }
            Statement::With(values, body) => {
                let mut assigned = Vec::new();
                for (target, value) in values {
                    assigned.push((target, self.value(value)?));
                }
                return self.scoped(self.here, |run| {
                    for (target, value) in assigned {
                        run.assign(target, value)?;
                    }
                    run.body(body, out)
                });
            }
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// Repeats a loop's statements within the scope `around`.
    fn for_loop(
        &mut self,
        each: &Rc<For<'s>>,
        over: &Value<'s>,
        depth: usize,
        around: usize,
        out: &mut String,
    ) -> Result<()> {
        let mut items = self.items(over)?;
        if let Some(only) = &each.only {
            let mut kept = Vec::new();
            for item in items {
                let keep = self.scoped(around, |run| {
                    run.assign(&each.target, item.clone())?;
                    Ok(run.value(only)?.truth())
                })?;
                if keep {
                    kept.push(item);
                }
            }
            items = kept;
        }
        for (index, item) in items.iter().enumerate() {
            let state = Loop {
                index,
                length: items.len(),
                previous: index.checked_sub(1).and_then(|i| items.get(i)).cloned(),
                next: items.get(index + 1).cloned(),
                depth,
                again: each.recursive.then(|| (Rc::clone(each), around)),
            };
            let flow = self.scoped(around, |run| {
                run.charge(size_of::<Loop<'_>>())?;
                run.define("loop", Value::Loop(Rc::new(state)));
                run.assign(&each.target, item.clone())?;
                run.body(&each.body, out)
            })?;
            if matches!(flow, Flow::Break) {
                break;
            }
        }
        if items.is_empty() {
            self.scoped(around, |run| run.body(&each.otherwise, out))?;
        }
        Ok(())
    }

    /// Assigns to a name, to an attribute of a namespace, or to several of these.
    fn assign(&mut self, target: &Expr<'s>, value: Value<'s>) -> Result<()> {
        let wrong = || Fault::new("only names and attributes of namespaces are assigned to");
        match target {
            Expr::Name(name) => self.define(name, value),
            Expr::Postfix(owner, parts) => {
                let ([Postfix::Attribute(name)], Value::Namespace(namespace)) =
                    (&parts[..], self.value(owner)?)
                else {
                    return Err(wrong());
                };
                value.assert_plain()?;
                namespace.borrow_mut().insert(name, value);
            }
            Expr::List(targets, true) => {
                let items = self.items(&value)?;
                let (want, have) = (targets.len(), items.len());
                if have != want {
                    let what = format!("{want} values are expected, and there are {have}");
                    return Err(Fault::new(what));
                }
                for (target, item) in targets.iter().zip(items) {
                    self.assign(target, item)?;
                }
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// The value of an expression.
    fn value(&mut self, expression: &Expr<'s>) -> Result<Value<'s>> {
        self.charge(0)?;
        match expression {
            Expr::Constant(value) => Ok(value.clone()),
            Expr::Name(name) => self.variable(name),
            other => self.nested(|run| run.compound(other)),
        }
    }

    /// The value of an expression that has parts.
    fn compound(&mut self, expression: &Expr<'s>) -> Result<Value<'s>> {
        match expression {
            Expr::List(items, tuple) => {
                let items = items.iter().map(|item| self.value(item)).collect::<Result<_>>()?;
                self.sequence(items, *tuple)
            }
            Expr::Map(entries) => {
                let mut pairs = Vec::new();
                for (key, value) in entries {
                    pairs.push((self.value(key)?, self.value(value)?));
                }
                self.map(pairs)
            }
            Expr::Postfix(value, parts) => {
                let mut value = self.value(value)?;
                for part in parts {
                    value = self.postfix(&value, part)?;
                }
                Ok(value)
            }
            Expr::Not(value) => Ok(Value::Bool(!self.value(value)?.truth())),
            Expr::Chain(first, others) => self.chain(first, others),
            Expr::If(parts) => {
                let (yes, condition, no) = &**parts;
                if self.value(condition)?.truth() {
                    return self.value(yes);
                }
                no.as_ref().map_or(Ok(Value::Undefined("")), |no| self.value(no))
            }
            Expr::Block(body) => {
                let mut out = String::new();
                self.scoped(self.here, |run| run.body(body, &mut out))?;
                self.made(&out)
            }
            Expr::Macro(made) => Ok(Value::Macro(Rc::clone(made), self.here)),
            simple => self.value(simple),
        }
    }

    pub(super) fn compare(&mut self, operator: &str, a: &Value<'s>, b: &Value<'s>) -> Result<bool> {
        Ok(match operator {
            "==" => self.equal(a, b)?,
            "!=" => !self.equal(a, b)?,
            "<" => self.order(a, b)?.is_lt(),
            "<=" => self.order(a, b)?.is_le(),
            ">" => self.order(a, b)?.is_gt(),
            ">=" => self.order(a, b)?.is_ge(),
            "in" => self.contains(b, a)?,
            "not in" => !self.contains(b, a)?,
            _ => a.kind() == b.kind() && self.equal(a, b)?,
        })
    }

    /// `a + b - c`, `a < b <= c`, `a and b`, or `a ~ b ~ c`, whose text is written once.
    fn chain(
        &mut self,
        first: &Expr<'s>,
        others: &[(&'static str, Expr<'s>)],
    ) -> Result<Value<'s>> {
        let mut value = self.value(first)?;
        let mut text = String::new();
        for (i, (operator, other)) in others.iter().enumerate() {
            match *operator {
                "or" | "and" if value.truth() == (*operator == "or") => return Ok(value),
                "or" | "and" => value = self.value(other)?,
                "~" => {
                    if i == 0 {
                        self.write_text(&mut text, &value)?;
                    }
                    let other = self.value(other)?;
                    self.write_text(&mut text, &other)?;
                }
                "+" | "-" | "*" | "/" | "//" | "%" | "**" => {
                    let other = self.value(other)?;
                    value = self.binary(operator, &value, &other)?;
                }
                _ => {
                    let other = self.value(other)?;
                    if !self.compare(operator, &value, &other)? {
                        return Ok(Value::Bool(false));
                    }
                    value = if i + 1 == others.len() { Value::Bool(true) } else { other };
                }
            }
        }
        if others.first().is_some_and(|(operator, _)| *operator == "~") {
            return self.made(&text);
        }
        Ok(value)
    }

    pub(super) fn binary(
        &mut self,
        operator: &str,
        a: &Value<'s>,
        b: &Value<'s>,
    ) -> Result<Value<'s>> {
        self.charge(0)?;
        let wrong = || {
            let undefined = [a, b].into_iter().find_map(|value| match value {
                Value::Undefined(name) => Some(format!("{name:?} is undefined")),
                _ => None,
            });
            let what = format!("{} {operator} {} is not possible", a.kind(), b.kind());
            Fault::new(undefined.unwrap_or(what))
        };
        match (operator, a, b) {
            ("+", Value::Text(a), Value::Text(b)) => {
                self.charge(a.len() + b.len())?;
                return Ok(Value::Text([&**a, &**b].concat().into()));
            }
            ("+", Value::List(a), Value::List(b)) if a.tuple == b.tuple => {
                self.charge((a.items.len() + b.items.len()) * size_of::<Value<'_>>())?;
                let items = a.items.iter().chain(&b.items).cloned().collect();
                return Value::sequence(items, a.tuple);
            }
            ("*", Value::Text(text), count) | ("*", count, Value::Text(text)) => {
                let count = count.int().ok_or_else(wrong)?.max(0) as usize;
                self.charge(text.len().saturating_mul(count))?;
                return Ok(Value::Text(text.repeat(count).into()));
            }
            ("*", Value::List(list), count) | ("*", count, Value::List(list)) => {
                let count = count.int().ok_or_else(wrong)?.max(0) as usize;
                let length = list.items.len().saturating_mul(count);
                self.charge(length.saturating_mul(size_of::<Value<'_>>()))?;
                let items = list.items.iter().cycle().take(length).cloned().collect();
                return Value::sequence(items, list.tuple);
            }
            ("%", Value::Text(format), values) => return self.percent(format, values),
            _ => {}
        }
        if let (Some(x), Some(y)) = (a.int(), b.int()) {
            let zero = || Fault::new("a division by zero");
            let result = match operator {
                "+" => x.checked_add(y),
                "-" => x.checked_sub(y),
                "*" => x.checked_mul(y),
                "//" | "%" if y == 0 => return Err(zero()),
                // The remainder has the sign of the divisor.
                "//" => {
                    x.checked_div(y).map(|q| q - i64::from((x % y != 0) && ((x < 0) != (y < 0))))
                }
                "%" => {
                    x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r })
                }
                "**" if y >= 0 => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
                "**" if x == 0 => return Err(zero()),
                "**" => return Ok(Value::Float((x as f64).powf(y as f64))),
                _ if y == 0 => return Err(zero()),
                _ => return Ok(Value::Float(x as f64 / y as f64)),
            };
            return result.map(Value::Int).ok_or_else(|| Fault::new("a number is too large"));
        }
        let (x, y) = a.float().zip(b.float()).ok_or_else(wrong)?;
        Ok(Value::Float(match operator {
            "+" => x + y,
            "-" => x - y,
            "*" => x * y,
            "**" => x.powf(y),
            _ if y == 0.0 => return Err(Fault::new("a division by zero")),
            "//" => (x / y).floor(),
            "%" => x - y * (x / y).floor(),
            _ => x / y,
        }))
    }

    /// A dictionary. Of equal keys the last one's value counts.
    pub(super) fn map(&mut self, pairs: Vec<(Value<'s>, Value<'s>)>) -> Result<Value<'s>> {
        self.charge(pairs.len() * size_of::<(Value<'_>, Value<'_>)>())?;
        let mut entries: Vec<(Value<'s>, Value<'s>)> = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let own = self.place(&entries, &key)?;
            match own.and_then(|at| entries.get_mut(at)) {
                Some(entry) => entry.1 = value,
                None => entries.push((key, value)),
            }
        }
        Value::map(entries)
    }

    fn given(&mut self, arguments: &Arguments<'s>) -> Result<CallArguments<'s>> {
        let mut given = CallArguments::default();
        for (name, value) in arguments {
            let value = self.value(value)?;
            match *name {
                "" => given.positional.push(value),
                "*" => given.positional.append(&mut self.items(&value)?),
                name => given.named.push((name, value)),
            }
        }
        Ok(given)
    }

    fn postfix(&mut self, value: &Value<'s>, part: &Postfix<'s>) -> Result<Value<'s>> {
        self.charge(0)?;
        match part {
            Postfix::Attribute(name) => self.attribute(value, name),
            Postfix::Item(index) => {
                let index = self.value(index)?;
                self.item(value, &index)
            }
            Postfix::Slice(parts) => {
                let mut bounds = [None; 3];
                for (bound, part) in bounds.iter_mut().zip(parts.iter()) {
                    let Some(part) = part else { continue };
                    let part = self.value(part)?;
                    let number = part.int().map(Some);
                    let none = matches!(part, Value::None).then_some(None);
                    *bound = number.or(none).ok_or_else(|| part.is_no("index"))?;
                }
                self.slice(value, bounds)
            }
            Postfix::Call(arguments) => {
                let given = self.given(arguments)?;
                self.call(value, &given)
            }
            Postfix::Filter(name, arguments) => {
                let given = self.given(arguments)?;
                self.filter(name, value, &given)
            }
            Postfix::Test(name, negated, arguments) => {
                let given = self.given(arguments)?;
                Ok(Value::Bool(self.test(name, value, &given)? != *negated))
            }
        }
    }

    /// `value.name`: a method before an entry.
    fn attribute(&mut self, value: &Value<'s>, name: &'s str) -> Result<Value<'s>> {
        if value.has_method(name) {
            return Ok(Value::Function(name, Some(Rc::new(value.clone()))));
        }
        let nothing = Value::Undefined(name);
        Ok(match value {
            Value::Undefined(_) => return Err(value.is_no("object")),
            Value::Map(map) => self.entry(map, &Value::from(name))?.unwrap_or(nothing),
            Value::Namespace(namespace) => namespace.borrow().get(name).cloned().unwrap_or(nothing),
            Value::Loop(state) => {
                let left = state.length - state.index;
                let number = |n: usize| Value::Int(n as i64);
                match name {
                    "index" => number(state.index + 1),
                    "index0" => number(state.index),
                    "revindex" => number(left),
                    "revindex0" => number(left - 1),
                    "first" => Value::Bool(state.index == 0),
                    "last" => Value::Bool(left == 1),
                    "length" => number(state.length),
                    "depth" => number(state.depth + 1),
                    "depth0" => number(state.depth),
                    "previtem" => state.previous.clone().unwrap_or(nothing),
                    "nextitem" => state.next.clone().unwrap_or(nothing),
                    _ => nothing,
                }
            }
            _ => nothing,
        })
    }

    /// `value[index]`
    pub(super) fn item(&mut self, value: &Value<'s>, index: &Value<'s>) -> Result<Value<'s>> {
        let at = |length: usize| {
            let index = index.int()?;
            let index = if index < 0 { index.checked_add(length as i64)? } else { index };
            usize::try_from(index).ok()
        };
        let nothing = Value::Undefined("");
        match (value, index) {
            (Value::Undefined(_), _) => Err(value.is_no("list")),
            (Value::Map(map), _) => Ok(self.entry(map, index)?.unwrap_or(nothing)),
            (Value::List(list), _) if index.int().is_some() => Ok(at(list.items.len())
                .and_then(|at| list.items.get(at))
                .cloned()
                .unwrap_or(nothing)),
            (Value::Text(text), _) if index.int().is_some() => {
                self.charge(text.len())?;
                let c = at(text.chars().count()).and_then(|at| text.chars().nth(at));
                Ok(c.map_or(nothing, |c| Value::from(&*c.encode_utf8(&mut [0; 4]))))
            }
            (Value::Namespace(namespace), Value::Text(name)) => {
                Ok(namespace.borrow().get(&**name).cloned().unwrap_or(nothing))
            }
            _ => Ok(nothing),
        }
    }

    /// `value[start:stop:step]`
    fn slice(
        &mut self,
        value: &Value<'s>,
        [start, stop, step]: [Option<i64>; 3],
    ) -> Result<Value<'s>> {
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err(Fault::new("the step of a slice is 0"));
        }
        let count = match value {
            Value::Text(text) => {
                self.charge(text.len() * size_of::<char>())?;
                text.chars().count()
            }
            Value::List(list) => list.items.len(),
            other => return Err(other.is_no("list")),
        };
        let items = count as i64;
        let (least, most) = if step > 0 { (0, items) } else { (-1, items - 1) };
        let bound = |bound: Option<i64>, default: i64| match bound {
            None => default,
            Some(bound) if bound < 0 => bound.saturating_add(items).max(least),
            Some(bound) => bound.min(most),
        };
        let (from, to) = if step > 0 {
            (bound(start, 0), bound(stop, items))
        } else {
            (bound(start, items - 1), bound(stop, -1))
        };
        if let (Value::Text(text), 1) = (value, step) {
            let count = usize::try_from(to - from).unwrap_or_default();
            let text: String = text.chars().skip(from as usize).take(count).collect();
            return self.made(&text);
        }
        self.charge(count * 2 * size_of::<usize>())?;
        let mut picked = Vec::new();
        let mut at = from;
        while (step > 0 && at < to) || (step < 0 && at > to) {
            picked.push(at as usize);
            at = at.saturating_add(step);
        }
        match value {
            Value::List(list) => {
                let items = picked.iter().filter_map(|at| list.items.get(*at)).cloned().collect();
                self.sequence(items, list.tuple)
            }
            other => {
                let chars: Vec<char> = self.text(other)?.chars().collect();
                let text: String = picked.iter().filter_map(|at| chars.get(*at)).collect();
                self.made(&text)
            }
        }
    }

    /// Calls a function, a method, a macro or a recursive loop.
    fn call(&mut self, value: &Value<'s>, given: &CallArguments<'s>) -> Result<Value<'s>> {
        self.charge(0)?;
        match value {
            Value::Function(name, None) => self.function(name, given),
            Value::Function(name, Some(own)) => self.method(own, name, given),
            Value::Macro(called, scope) => self.call_macro(called, *scope, given),
            Value::Loop(state) => {
                let again = state.again.as_ref();
                let (each, around) =
                    again.ok_or_else(|| Fault::new("the loop is not recursive"))?;
                let over = given.get(0, "").unwrap_or(Value::Undefined(""));
                let mut out = String::new();
                let around = (*around).min(self.here);
                self.nested(|run| run.for_loop(each, &over, state.depth + 1, around, &mut out))?;
                self.made(&out)
            }
            other => Err(other.is_no("function")),
        }
    }

    fn call_macro(
        &mut self,
        called: &Macro<'s>,
        scope: usize,
        given: &CallArguments<'s>,
    ) -> Result<Value<'s>> {
        let mut names: Vec<&str> = called.parameters.iter().map(|(name, _)| *name).collect();
        if given.positional.len() <= names.len() {
            names.push("caller");
        }
        given.assert_only(&names)?;
        // The scope in which it was defined may no longer exist, or be replaced by another one.
        let text = self.scoped(scope.min(self.here), |run| {
            for (at, (name, default)) in called.parameters.iter().enumerate() {
                let value = match (given.get(at, name), default) {
                    (Some(value), _) => value,
                    (None, Some(default)) => run.value(default)?,
                    (None, None) => Value::Undefined(name),
                };
                run.define(name, value);
            }
            if let Some(caller) = given.get(usize::MAX, "caller") {
                run.define("caller", caller);
            }
            let mut out = String::new();
            run.body(&called.body, &mut out)?;
            Ok(out)
        })?;
        self.made(&text)
    }
}
