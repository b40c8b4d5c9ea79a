//! From tokens to a tree.

use std::rc::Rc;

use super::lexer::{END, Token};
use super::value::Value;
use super::{Fault, NESTED, Result};

/// An expression. Operators of one rank are a list, so their number does not add to the depth.
#[derive(Debug)]
pub(super) enum Expr<'s> {
    Constant(Value<'s>),
    Name(&'s str),
    /// A list, or a tuple if the flag says so.
    List(Vec<Self>, bool),
    Map(Vec<(Self, Self)>),
    /// A part that follows a value: `.a`, `[0]`, `(…)`, `|f`, `is t`.
    Postfix(Box<Self>, Vec<Postfix<'s>>),
    Not(Box<Self>),
    /// Operators of the same rank.
    Chain(Box<Self>, Vec<(&'static str, Self)>),
    /// `yes if condition else no`
    If(Box<(Self, Self, Option<Self>)>),
    /// The text that statements write.
    Block(Body<'s>),
    Macro(Rc<Macro<'s>>),
}

/// Operators from the loosest rank to the tightest. `not` stands before `COMPARISON`.
const RANKS: [&[&str]; 7] = [
    &["or"],
    &["and"],
    &["==", "!=", "<", "<=", ">", ">=", "in", "not in"],
    &["+", "-"],
    &["~"],
    &["*", "/", "//", "%"],
    &["**"],
];
const COMPARISON: usize = 2;

#[derive(Debug)]
pub(super) enum Postfix<'s> {
    Attribute(&'s str),
    Item(Expr<'s>),
    Slice(Box<[Option<Expr<'s>>; 3]>),
    Call(Arguments<'s>),
    Filter(&'s str, Arguments<'s>),
    /// The flag says whether the test must fail.
    Test(&'s str, bool, Arguments<'s>),
}

/// The arguments of a call with their names. The name is empty for an argument by position, and `*` for a list of arguments.
pub(super) type Arguments<'s> = Vec<(&'s str, Expr<'s>)>;

/// Statements, each with its line.
pub(super) type Body<'s> = Vec<(u32, Statement<'s>)>;

#[derive(Debug)]
pub(super) enum Statement<'s> {
    Data(&'s str),
    Print(Expr<'s>),
    For(Rc<For<'s>>),
    If(Vec<(Expr<'s>, Body<'s>)>, Body<'s>),
    /// The first expression is assigned to: a name, `namespace.name` or a tuple of these.
    Set(Expr<'s>, Expr<'s>),
    With(Vec<(Expr<'s>, Expr<'s>)>, Body<'s>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct For<'s> {
    pub(super) target: Expr<'s>,
    pub(super) over: Expr<'s>,
    pub(super) only: Option<Expr<'s>>,
    pub(super) recursive: bool,
    pub(super) body: Body<'s>,
    pub(super) otherwise: Body<'s>,
}

#[derive(Debug)]
pub(crate) struct Macro<'s> {
    pub(super) parameters: Vec<(&'s str, Option<Expr<'s>>)>,
    pub(super) body: Body<'s>,
}

struct Parser<'s> {
    tokens: Vec<(Token<'s>, u32)>,
    at: usize,
    depth: usize,
    loops: usize,
}

/// The statements of a template.
pub(super) fn parse(tokens: Vec<(Token<'_>, u32)>) -> Result<Body<'_>> {
    let mut parser = Parser { tokens, at: 0, depth: 0, loops: 0 };
    let body = parser.body(&[]).map_err(|fault| fault.on(parser.line()))?;
    Ok(body.0)
}

impl<'s> Parser<'s> {
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or_else(|| self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    fn peek(&self) -> Option<&Token<'s>> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<Token<'s>> {
        let token = self.tokens.get(self.at).map(|(token, _)| token.clone());
        self.at += 1;
        token
    }

    fn is(&self, operator: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(found)) if *found == operator)
    }

    fn skip(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Name(found)) if *found == name);
        self.at += usize::from(found);
        found
    }

    fn wrong<T>(&self, expected: &str) -> Result<T> {
        let found = match self.peek() {
            Some(Token::Name(word) | Token::Operator(word)) => format!("{word:?}"),
            Some(Token::Constant(value)) => format!("a {}", value.kind()),
            _ => "the template's end".to_owned(),
        };
        Err(Fault::new(format!("expected {expected}, and found {found}")).on(self.line()))
    }

    fn expect(&mut self, operator: &str) -> Result<()> {
        if self.skip(operator) { Ok(()) } else { self.wrong(&format!("{operator:?}")) }
    }

    fn name(&mut self) -> Result<&'s str> {
        let Some(Token::Name(name)) = self.peek() else { return self.wrong("a name") };
        let name = *name;
        self.at += 1;
        Ok(name)
    }

    /// Goes one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= NESTED {
            let what = format!("brackets and blocks are nested more than {NESTED} times");
            return Err(Fault::new(what).on(self.line()));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Statements up to a tag that begins with one of these names, which is returned and skipped.
    fn body(&mut self, ends: &[&str]) -> Result<(Body<'s>, &'s str)> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            match self.next() {
                None if ends.is_empty() => return Ok((body, "")),
                None => return self.wrong(&format!("{:?}", ends.join("\" or \""))),
                Some(Token::Data(data)) => body.push((line, Statement::Data(data))),
                Some(Token::Print) => {
                    let printed = self.tuple(Self::expression)?;
                    self.expect(END)?;
                    body.push((line, Statement::Print(printed)));
                }
                Some(_) => {
                    let name = self.name()?;
                    if ends.contains(&name) {
                        return Ok((body, name));
                    }
                    let statement = self.nested(|parser| parser.statement(name))?;
                    body.push((line, statement));
                }
            }
        }
    }

    /// Statements up to a tag of this name, whose end is skipped too.
    fn body_to(&mut self, end: &str) -> Result<Body<'s>> {
        self.expect(END)?;
        let (body, _) = self.body(&[end])?;
        self.expect(END)?;
        Ok(body)
    }

    fn statement(&mut self, name: &str) -> Result<Statement<'s>> {
        match name {
            "for" => self.for_loop(),
            "if" => self.condition(),
            "set" => self.set(),
            "macro" => {
                let name = self.name()?;
                self.expect("(")?;
                let parameters = self.items(")", Self::parameter)?;
                let body = self.outside_loops("endmacro")?;
                let made = Macro { parameters, body };
                Ok(Statement::Set(Expr::Name(name), Expr::Macro(Rc::new(made))))
            }
            "call" => {
                // The body becomes the `caller` of the called macro.
                let parameters =
                    if self.skip("(") { self.items(")", Self::parameter)? } else { Vec::new() };
                let Expr::Postfix(called, mut parts) = self.expression()? else {
                    return self.wrong("a call");
                };
                let Some(Postfix::Call(arguments)) = parts.last_mut() else {
                    return self.wrong("a call");
                };
                let body = self.outside_loops("endcall")?;
                let caller = Macro { parameters, body };
                arguments.push(("caller", Expr::Macro(Rc::new(caller))));
                Ok(Statement::Print(Expr::Postfix(called, parts)))
            }
            "filter" => {
                let filters = self.filters()?;
                Ok(Statement::Print(self.filtered(filters, "endfilter")?))
            }
            "with" => {
                let mut values = Vec::new();
                while !self.is(END) {
                    if !values.is_empty() {
                        self.expect(",")?;
                    }
                    let target = self.target()?;
                    self.expect("=")?;
                    values.push((target, self.expression()?));
                }
                Ok(Statement::With(values, self.body_to("endwith")?))
            }
            // The texts that the model writes. Transformers marks them for training, and prints them.
            "generation" => Ok(Statement::With(Vec::new(), self.body_to("endgeneration")?)),
            "break" | "continue" if self.loops > 0 => {
                self.expect(END)?;
                Ok(if name == "break" { Statement::Break } else { Statement::Continue })
            }
            other => Err(Fault::new(format!("the tag {other:?} is not known here"))),
        }
    }

    /// Statements that a loop outside them does not end or continue.
    fn outside_loops(&mut self, end: &str) -> Result<Body<'s>> {
        let loops = core::mem::take(&mut self.loops);
        let body = self.body_to(end);
        self.loops = loops;
        body
    }

    /// The text of statements after filters.
    fn filtered(&mut self, filters: Vec<Postfix<'s>>, end: &str) -> Result<Expr<'s>> {
        let block = Expr::Block(self.outside_loops(end)?);
        Ok(if filters.is_empty() { block } else { Expr::Postfix(Box::new(block), filters) })
    }

    fn for_loop(&mut self) -> Result<Statement<'s>> {
        let target = self.tuple(Self::target)?;
        if !self.skip_name("in") {
            return self.wrong("\"in\"");
        }
        let over = self.tuple(Self::operators)?;
        let only = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.skip_name("recursive");
        self.expect(END)?;
        self.loops += 1;
        let (body, end) = self.body(&["else", "endfor"])?;
        self.loops -= 1;
        let otherwise = if end == "else" {
            self.body_to("endfor")?
        } else {
            self.expect(END)?;
            Vec::new()
        };
        Ok(Statement::For(Rc::new(For { target, over, only, recursive, body, otherwise })))
    }

    fn condition(&mut self) -> Result<Statement<'s>> {
        let mut cases = Vec::new();
        loop {
            let condition = self.tuple(Self::operators)?;
            self.expect(END)?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            cases.push((condition, body));
            match end {
                "elif" => {}
                "else" => return Ok(Statement::If(cases, self.body_to("endif")?)),
                _ => {
                    self.expect(END)?;
                    return Ok(Statement::If(cases, Vec::new()));
                }
            }
        }
    }

    fn set(&mut self) -> Result<Statement<'s>> {
        let target = self.tuple(Self::target)?;
        if self.skip("=") {
            let value = self.tuple(Self::expression)?;
            self.expect(END)?;
            return Ok(Statement::Set(target, value));
        }
        let filters = if self.skip("|") { self.filters()? } else { Vec::new() };
        Ok(Statement::Set(target, self.filtered(filters, "endset")?))
    }

    /// A name, `namespace.name`, or a tuple in brackets.
    fn target(&mut self) -> Result<Expr<'s>> {
        self.unary(false)
    }

    fn parameter(&mut self) -> Result<(&'s str, Option<Expr<'s>>)> {
        let name = self.name()?;
        Ok((name, if self.skip("=") { Some(self.expression()?) } else { None }))
    }

    /// `f|g(1)`, as after a value.
    fn filters(&mut self) -> Result<Vec<Postfix<'s>>> {
        let mut filters = vec![self.filter()?];
        while self.skip("|") {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    fn filter(&mut self) -> Result<Postfix<'s>> {
        Ok(Postfix::Filter(self.name()?, self.bracketed()?))
    }

    /// One expression, or several with commas between them.
    fn tuple(&mut self, one: fn(&mut Self) -> Result<Expr<'s>>) -> Result<Expr<'s>> {
        let first = one(self)?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip(",") {
            if self.is(END) || self.is(")") {
                break;
            }
            items.push(one(self)?);
        }
        Ok(Expr::List(items, true))
    }

    fn expression(&mut self) -> Result<Expr<'s>> {
        self.nested(|parser| {
            let value = parser.operators()?;
            if !parser.skip_name("if") {
                return Ok(value);
            }
            let condition = parser.operators()?;
            let otherwise =
                if parser.skip_name("else") { Some(parser.expression()?) } else { None };
            Ok(Expr::If(Box::new((value, condition, otherwise))))
        })
    }

    fn operators(&mut self) -> Result<Expr<'s>> {
        self.ranked(0)
    }

    /// Operators of this rank and those above it.
    fn ranked(&mut self, rank: usize) -> Result<Expr<'s>> {
        let Some(operators) = RANKS.get(rank) else { return self.unary(true) };
        // Negating twice gives the truth of the value, as true or false.
        let mut negations = 0_usize;
        while rank == COMPARISON && self.skip_name("not") {
            negations += 1;
        }
        let mut value = self.ranked(rank + 1)?;
        let mut others = Vec::new();
        while let Some(operator) = self.skip_operator(operators) {
            others.push((operator, self.ranked(rank + 1)?));
        }
        if !others.is_empty() {
            value = Expr::Chain(Box::new(value), others);
        }
        for _ in 0..negations.min(2 - negations % 2) {
            value = Expr::Not(Box::new(value));
        }
        Ok(value)
    }

    fn skip_operator(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        let word = |at: usize| match self.tokens.get(at) {
            Some((Token::Operator(word) | Token::Name(word), _)) => *word,
            _ => "",
        };
        let found = match [word(self.at), word(self.at + 1)] {
            ["not", "in"] => "not in",
            [word, _] => word,
        };
        let operator = operators.iter().copied().find(|operator| *operator == found)?;
        self.at += operator.split(' ').count();
        Some(operator)
    }

    /// A value with its signs, and what follows it: filters bind less than signs.
    fn unary(&mut self, filters: bool) -> Result<Expr<'s>> {
        let value = if let Some(sign) = self.skip_operator(&["-", "+"]) {
            let value = self.nested(|parser| parser.unary(false))?;
            Expr::Chain(Box::new(Expr::Constant(Value::Int(0))), vec![(sign, value)])
        } else {
            self.primary()?
        };
        let mut parts = Vec::new();
        while let Some(part) = self.postfix(filters)? {
            parts.push(part);
        }
        Ok(if parts.is_empty() { value } else { Expr::Postfix(Box::new(value), parts) })
    }

    fn postfix(&mut self, filters: bool) -> Result<Option<Postfix<'s>>> {
        if self.skip(".") {
            if let Some(Token::Constant(index @ Value::Int(_))) = self.peek() {
                let item = Expr::Constant(index.clone());
                self.at += 1;
                return Ok(Some(Postfix::Item(item)));
            }
            return Ok(Some(Postfix::Attribute(self.name()?)));
        }
        if self.skip("[") {
            return self.nested(Self::subscript).map(Some);
        }
        if self.skip("(") {
            return Ok(Some(Postfix::Call(self.items(")", Self::argument)?)));
        }
        if filters && self.skip("|") {
            return self.filter().map(Some);
        }
        if filters && self.skip_name("is") {
            let negated = self.skip_name("not");
            let name = self.name()?;
            let ends = ["else", "or", "and", "is", "if", "in", "not", "recursive"];
            let mut arguments = self.bracketed()?;
            if arguments.is_empty() {
                let follows = match self.peek() {
                    Some(Token::Name(name)) => !ends.contains(name),
                    Some(Token::Constant(_)) => true,
                    Some(Token::Operator(operator)) => ["[", "{"].contains(operator),
                    _ => false,
                };
                if follows {
                    let value = self.nested(|parser| parser.unary(false))?;
                    arguments.push(("", value));
                }
            }
            return Ok(Some(Postfix::Test(name, negated, arguments)));
        }
        Ok(None)
    }

    fn subscript(&mut self) -> Result<Postfix<'s>> {
        let mut parts = [None, None, None];
        let mut slice = false;
        for part in &mut parts {
            if !self.is(":") && !self.is("]") {
                *part = Some(self.tuple(Self::expression)?);
            }
            if !self.skip(":") {
                break;
            }
            slice = true;
        }
        self.expect("]")?;
        let [index, ..] = &mut parts;
        if !slice {
            return match index.take() {
                Some(index) => Ok(Postfix::Item(index)),
                None => self.wrong("an index"),
            };
        }
        Ok(Postfix::Slice(Box::new(parts)))
    }

    /// The values of a call, or none.
    fn bracketed(&mut self) -> Result<Arguments<'s>> {
        if self.skip("(") { self.items(")", Self::argument) } else { Ok(Vec::new()) }
    }

    fn argument(&mut self) -> Result<(&'s str, Expr<'s>)> {
        let named = matches!(self.tokens.get(self.at + 1), Some((Token::Operator("="), _)));
        let name = match self.peek() {
            Some(Token::Name(name)) if named => *name,
            Some(Token::Operator("*")) => "*",
            _ => "",
        };
        self.at += match name {
            "" => 0,
            "*" => 1,
            _ => 2,
        };
        Ok((name, self.expression()?))
    }

    fn primary(&mut self) -> Result<Expr<'s>> {
        if !matches!(
            self.peek(),
            Some(Token::Name(_) | Token::Constant(_) | Token::Operator("(" | "[" | "{"))
        ) {
            return self.wrong("a value");
        }
        Ok(match self.next() {
            Some(Token::Name("true" | "True")) => Expr::Constant(Value::Bool(true)),
            Some(Token::Name("false" | "False")) => Expr::Constant(Value::Bool(false)),
            Some(Token::Name("none" | "None")) => Expr::Constant(Value::None),
            Some(Token::Name(name)) => Expr::Name(name),
            Some(Token::Constant(Value::Text(text))) => {
                // Strings one after another are one string.
                let mut joined = text.to_string();
                while let Some(Token::Constant(Value::Text(text))) = self.peek() {
                    joined.push_str(text);
                    self.at += 1;
                }
                Expr::Constant(Value::Text(joined.into()))
            }
            Some(Token::Constant(value)) => Expr::Constant(value),
            Some(Token::Operator("(")) => {
                if self.skip(")") {
                    return Ok(Expr::List(Vec::new(), true));
                }
                let value = self.tuple(Self::expression)?;
                self.expect(")")?;
                value
            }
            Some(Token::Operator("[")) => Expr::List(self.items("]", Self::expression)?, false),
            _ => Expr::Map(self.items("}", |parser| {
                let key = parser.expression()?;
                parser.expect(":")?;
                Ok((key, parser.expression()?))
            })?),
        })
    }

    fn items<T>(&mut self, end: &str, one: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.skip(end) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.skip(end) {
                    break;
                }
            }
            items.push(one(self)?);
        }
        Ok(items)
    }
}
