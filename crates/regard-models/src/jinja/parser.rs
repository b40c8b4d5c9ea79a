//! From tokens to a tree.

use std::rc::Rc;

use super::lexer::Token;
use super::{Fault, NESTED, Result};

/// An expression. Operators of one rank are a list: its length adds no depth.
#[derive(Debug)]
pub(super) enum Expr<'s> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    Name(&'s str),
    List(Vec<Self>),
    Tuple(Vec<Self>),
    Map(Vec<(Self, Self)>),
    /// What follows a value: `.a`, `[0]`, `(…)`, `|f`, `is t`.
    Postfix(Box<Self>, Vec<Postfix<'s>>),
    Negative(Box<Self>),
    Positive(Box<Self>),
    Not(Box<Self>),
    /// Operators of the same rank, from left to right.
    Chain(Box<Self>, Vec<(&'static str, Self)>),
    /// `a < b <= c`
    Compare(Box<Self>, Vec<(Comparison, Self)>),
    And(Vec<Self>),
    Or(Vec<Self>),
    /// `yes if condition else no`
    If(Box<(Self, Self, Option<Self>)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

#[derive(Debug)]
pub(super) enum Postfix<'s> {
    Attribute(&'s str),
    Item(Expr<'s>),
    Slice(Box<[Option<Expr<'s>>; 3]>),
    Call(Arguments<'s>),
    Filter(String, Arguments<'s>),
    /// The flag says whether the test must fail.
    Test(String, bool, Arguments<'s>),
}

#[derive(Debug, Default)]
pub(super) struct Arguments<'s> {
    /// The flag says whether the value is a list of values: `*values`.
    pub(super) positional: Vec<(bool, Expr<'s>)>,
    pub(super) named: Vec<(&'s str, Expr<'s>)>,
}

/// Statements, each with its line.
pub(super) type Body<'s> = Vec<(u32, Statement<'s>)>;

#[derive(Debug)]
pub(super) enum Statement<'s> {
    Data(&'s str),
    Print(Expr<'s>),
    For(Rc<For<'s>>),
    If(Vec<(Expr<'s>, Body<'s>)>, Body<'s>),
    Set(Target<'s>, Expr<'s>),
    SetBlock(Target<'s>, Vec<Postfix<'s>>, Body<'s>),
    Macro(Rc<Macro<'s>>),
    Call(Expr<'s>, Rc<Macro<'s>>),
    Filter(Vec<Postfix<'s>>, Body<'s>),
    With(Vec<(Target<'s>, Expr<'s>)>, Body<'s>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct For<'s> {
    pub(super) target: Target<'s>,
    pub(super) over: Expr<'s>,
    pub(super) only: Option<Expr<'s>>,
    pub(super) recursive: bool,
    pub(super) body: Body<'s>,
    pub(super) otherwise: Body<'s>,
}

#[derive(Debug)]
pub(crate) struct Macro<'s> {
    pub(super) name: &'s str,
    pub(super) parameters: Vec<(&'s str, Option<Expr<'s>>)>,
    pub(super) body: Body<'s>,
}

/// What is assigned to.
#[derive(Debug)]
pub(super) enum Target<'s> {
    Name(&'s str),
    Attribute(&'s str, &'s str),
    Tuple(Vec<Self>),
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

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(found)) if *found == name)
    }

    fn skip(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    fn wrong<T>(&self, expected: &str) -> Result<T> {
        let found = match self.peek() {
            None | Some(Token::Data(_)) => "the template's end".to_owned(),
            Some(Token::End) => "the tag's end".to_owned(),
            Some(Token::Block | Token::Print) => "a tag".to_owned(),
            Some(Token::Name(name)) => format!("{name:?}"),
            Some(Token::Operator(operator)) => format!("{operator:?}"),
            Some(Token::Text(_)) => "a string".to_owned(),
            Some(Token::Int(_) | Token::Float(_)) => "a number".to_owned(),
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

    fn end(&mut self) -> Result<()> {
        if self.peek() != Some(&Token::End) {
            return self.wrong("the tag's end");
        }
        self.at += 1;
        Ok(())
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
                    self.end()?;
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
        self.end()?;
        let (body, _) = self.body(&[end])?;
        // A block of a macro may repeat the name.
        if end == "endmacro" && matches!(self.peek(), Some(Token::Name(_))) {
            self.at += 1;
        }
        self.end()?;
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
                let parameters = self.parameters()?;
                let body = self.outside_loops(|parser| parser.body_to("endmacro"))?;
                Ok(Statement::Macro(Rc::new(Macro { name, parameters, body })))
            }
            "call" => {
                let parameters = if self.skip("(") { self.parameters()? } else { Vec::new() };
                let call = self.expression()?;
                let is_call = matches!(&call, Expr::Postfix(_, parts) if matches!(parts.last(), Some(Postfix::Call(_))));
                if !is_call {
                    return self.wrong("a call");
                }
                let body = self.outside_loops(|parser| parser.body_to("endcall"))?;
                let caller = Macro { name: "caller", parameters, body };
                Ok(Statement::Call(call, Rc::new(caller)))
            }
            "filter" => {
                let filters = self.filters()?;
                Ok(Statement::Filter(filters, self.body_to("endfilter")?))
            }
            "with" => {
                let mut values = Vec::new();
                while self.peek() != Some(&Token::End) {
                    if !values.is_empty() {
                        self.expect(",")?;
                    }
                    let target = self.target(false)?;
                    self.expect("=")?;
                    values.push((target, self.expression()?));
                }
                Ok(Statement::With(values, self.body_to("endwith")?))
            }
            // The texts that the model wrote: transformers marks them for training, and prints them.
            "generation" => Ok(Statement::With(Vec::new(), self.body_to("endgeneration")?)),
            "break" | "continue" if self.loops > 0 => {
                self.end()?;
                Ok(if name == "break" { Statement::Break } else { Statement::Continue })
            }
            other => Err(Fault::new(format!("the tag {other:?} is not known here"))),
        }
    }

    fn outside_loops<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let loops = core::mem::take(&mut self.loops);
        let parsed = parse(self);
        self.loops = loops;
        parsed
    }

    fn for_loop(&mut self) -> Result<Statement<'s>> {
        let target = self.target(false)?;
        if !self.skip_name("in") {
            return self.wrong("\"in\"");
        }
        let over = self.tuple(Self::or)?;
        let only = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.skip_name("recursive");
        self.end()?;
        self.loops += 1;
        let (body, end) = self.body(&["else", "endfor"])?;
        self.loops -= 1;
        let otherwise = if end == "else" {
            self.body_to("endfor")?
        } else {
            self.end()?;
            Vec::new()
        };
        Ok(Statement::For(Rc::new(For { target, over, only, recursive, body, otherwise })))
    }

    fn condition(&mut self) -> Result<Statement<'s>> {
        let mut cases = Vec::new();
        loop {
            let condition = self.tuple(Self::or)?;
            self.end()?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            cases.push((condition, body));
            match end {
                "elif" => {}
                "else" => return Ok(Statement::If(cases, self.body_to("endif")?)),
                _ => {
                    self.end()?;
                    return Ok(Statement::If(cases, Vec::new()));
                }
            }
        }
    }

    fn set(&mut self) -> Result<Statement<'s>> {
        let target = self.target(true)?;
        if self.skip("=") {
            let value = self.tuple(Self::expression)?;
            self.end()?;
            return Ok(Statement::Set(target, value));
        }
        let filters = if self.skip("|") { self.filters()? } else { Vec::new() };
        Ok(Statement::SetBlock(target, filters, self.body_to("endset")?))
    }

    /// `name`, `namespace.name`, or several with commas between them, perhaps in brackets.
    fn target(&mut self, attributes: bool) -> Result<Target<'s>> {
        let one = |parser: &mut Self| {
            if parser.skip("(") {
                let target = parser.nested(|parser| parser.target(attributes))?;
                parser.expect(")")?;
                return Ok(target);
            }
            let name = parser.name()?;
            if attributes && parser.skip(".") {
                return Ok(Target::Attribute(name, parser.name()?));
            }
            Ok(Target::Name(name))
        };
        let first = one(self)?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.skip(",") {
            if !matches!(self.peek(), Some(Token::Name(name)) if *name != "in") && !self.is("(") {
                break;
            }
            targets.push(one(self)?);
        }
        Ok(Target::Tuple(targets))
    }

    fn parameters(&mut self) -> Result<Vec<(&'s str, Option<Expr<'s>>)>> {
        let mut parameters = Vec::new();
        while !self.skip(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
            }
            let name = self.name()?;
            let default = if self.skip("=") { Some(self.expression()?) } else { None };
            parameters.push((name, default));
        }
        Ok(parameters)
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
        let name = self.name()?.to_owned();
        let arguments = if self.skip("(") { self.arguments()? } else { Arguments::default() };
        Ok(Postfix::Filter(name, arguments))
    }

    /// One expression, or several with commas between them.
    fn tuple(&mut self, one: fn(&mut Self) -> Result<Expr<'s>>) -> Result<Expr<'s>> {
        let first = one(self)?;
        if !self.is(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip(",") {
            if self.peek() == Some(&Token::End) || self.is(")") {
                break;
            }
            items.push(one(self)?);
        }
        Ok(Expr::Tuple(items))
    }

    fn expression(&mut self) -> Result<Expr<'s>> {
        self.nested(|parser| {
            let value = parser.or()?;
            if !parser.skip_name("if") {
                return Ok(value);
            }
            let condition = parser.or()?;
            let otherwise =
                if parser.skip_name("else") { Some(parser.expression()?) } else { None };
            Ok(Expr::If(Box::new((value, condition, otherwise))))
        })
    }

    fn or(&mut self) -> Result<Expr<'s>> {
        let first = self.and()?;
        if !self.is_name("or") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.skip_name("or") {
            all.push(self.and()?);
        }
        Ok(Expr::Or(all))
    }

    fn and(&mut self) -> Result<Expr<'s>> {
        let first = self.not()?;
        if !self.is_name("and") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.skip_name("and") {
            all.push(self.not()?);
        }
        Ok(Expr::And(all))
    }

    /// Two `not` are one: what is negated twice is true or false.
    fn not(&mut self) -> Result<Expr<'s>> {
        let mut count = 0_usize;
        while self.skip_name("not") {
            count += 1;
        }
        let mut value = self.comparison()?;
        for _ in 0..count.min(2 - count % 2) {
            value = Expr::Not(Box::new(value));
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Result<Expr<'s>> {
        let first = self.binary(0)?;
        let mut others = Vec::new();
        loop {
            let comparison = match self.peek() {
                Some(Token::Operator("==")) => Comparison::Equal,
                Some(Token::Operator("!=")) => Comparison::NotEqual,
                Some(Token::Operator("<")) => Comparison::Less,
                Some(Token::Operator("<=")) => Comparison::LessOrEqual,
                Some(Token::Operator(">")) => Comparison::Greater,
                Some(Token::Operator(">=")) => Comparison::GreaterOrEqual,
                Some(Token::Name("in")) => Comparison::In,
                Some(Token::Name("not"))
                    if matches!(self.tokens.get(self.at + 1), Some((Token::Name("in"), _))) =>
                {
                    self.at += 1;
                    Comparison::NotIn
                }
                _ => break,
            };
            self.at += 1;
            others.push((comparison, self.binary(0)?));
        }
        Ok(if others.is_empty() { first } else { Expr::Compare(Box::new(first), others) })
    }

    /// Arithmetic of this rank and those above it.
    fn binary(&mut self, rank: usize) -> Result<Expr<'s>> {
        const RANKS: [&[&str]; 4] = [&["+", "-"], &["~"], &["*", "/", "//", "%"], &["**"]];
        let Some(operators) = RANKS.get(rank) else { return self.unary(true) };
        let first = self.binary(rank + 1)?;
        let mut others = Vec::new();
        while let Some(operator) = operators.iter().find(|operator| self.is(operator)) {
            self.at += 1;
            others.push((*operator, self.binary(rank + 1)?));
        }
        Ok(if others.is_empty() { first } else { Expr::Chain(Box::new(first), others) })
    }

    /// A value with its signs, and what follows it: filters bind less than signs.
    fn unary(&mut self, filters: bool) -> Result<Expr<'s>> {
        let value = if self.is("-") || self.is("+") {
            let negative = self.is("-");
            self.at += 1;
            let value = Box::new(self.nested(|parser| parser.unary(false))?);
            if negative { Expr::Negative(value) } else { Expr::Positive(value) }
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
            if let Some(Token::Int(index)) = self.peek() {
                let item = Expr::Int(*index);
                self.at += 1;
                return Ok(Some(Postfix::Item(item)));
            }
            return Ok(Some(Postfix::Attribute(self.name()?)));
        }
        if self.skip("[") {
            return self.nested(Self::subscript).map(Some);
        }
        if self.skip("(") {
            return Ok(Some(Postfix::Call(self.arguments()?)));
        }
        if filters && self.skip("|") {
            return self.filter().map(Some);
        }
        if filters && self.skip_name("is") {
            let negated = self.skip_name("not");
            let name = self.name()?.to_owned();
            let ends = ["else", "or", "and", "is", "if", "in", "not", "recursive"];
            let arguments = if self.skip("(") {
                self.arguments()?
            } else {
                let follows = match self.peek() {
                    Some(Token::Name(name)) => !ends.contains(name),
                    Some(Token::Text(_) | Token::Int(_) | Token::Float(_)) => true,
                    Some(Token::Operator(operator)) => ["[", "{"].contains(operator),
                    _ => false,
                };
                let mut arguments = Arguments::default();
                if follows {
                    let value = self.nested(|parser| {
                        let value = parser.primary()?;
                        let mut parts = Vec::new();
                        while let Some(part) = parser.postfix(false)? {
                            parts.push(part);
                        }
                        Ok(Expr::Postfix(Box::new(value), parts))
                    })?;
                    arguments.positional.push((false, value));
                }
                arguments
            };
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

    fn arguments(&mut self) -> Result<Arguments<'s>> {
        let mut arguments = Arguments::default();
        let mut first = true;
        while !self.skip(")") {
            if !core::mem::take(&mut first) {
                self.expect(",")?;
                if self.skip(")") {
                    break;
                }
            }
            let named = matches!(self.tokens.get(self.at + 1), Some((Token::Operator("="), _)));
            if let (true, Some(Token::Name(name))) = (named, self.peek()) {
                let name = *name;
                self.at += 2;
                arguments.named.push((name, self.expression()?));
            } else {
                let spread = self.skip("*");
                arguments.positional.push((spread, self.expression()?));
            }
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Result<Expr<'s>> {
        if !matches!(
            self.peek(),
            Some(
                Token::Name(_)
                    | Token::Text(_)
                    | Token::Int(_)
                    | Token::Float(_)
                    | Token::Operator("(" | "[" | "{")
            )
        ) {
            return self.wrong("a value");
        }
        Ok(match self.next() {
            Some(Token::Name("true" | "True")) => Expr::Bool(true),
            Some(Token::Name("false" | "False")) => Expr::Bool(false),
            Some(Token::Name("none" | "None")) => Expr::None,
            Some(Token::Name(name)) => Expr::Name(name),
            Some(Token::Int(number)) => Expr::Int(number),
            Some(Token::Float(number)) => Expr::Float(number),
            Some(Token::Text(text)) => {
                let Some(Token::Text(_)) = self.peek() else { return Ok(Expr::Text(text)) };
                let mut joined = text.to_string();
                while let Some(Token::Text(text)) = self.peek() {
                    joined.push_str(text);
                    self.at += 1;
                }
                Expr::Text(joined.into())
            }
            Some(Token::Operator("(")) => {
                if self.skip(")") {
                    return Ok(Expr::Tuple(Vec::new()));
                }
                let value = self.tuple(Self::expression)?;
                self.expect(")")?;
                value
            }
            Some(Token::Operator("[")) => Expr::List(self.items("]", Self::expression)?),
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
