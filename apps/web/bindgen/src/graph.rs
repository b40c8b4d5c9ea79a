//! Which function and which data of a linked module refers to which other.
//!
//! The linker writes this down when it is asked to (`--emit-relocs`): the section `linking` lists the symbols, and a section
//! `reloc.*` lists each place in the code or in the data that holds the index or the address of a symbol. See
//! <https://github.com/WebAssembly/tool-conventions/blob/main/Linking.md>.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use wasmparser::{
    Data, DataKind, KnownCustom, Linking, Operator, Parser, Payload, RelocationEntry,
    RelocationType, SymbolInfo, TypeRef,
};

/// A function or a piece of data, by its place in [`Graph::nodes`].
pub type Node = usize;

/// The functions and the data of a module.
pub struct Graph {
    pub nodes: Vec<Thing>,
    /// The functions by where their bodies end, in bytes from the start of the code section.
    by_end: HashMap<usize, Node>,
}

/// A function or a piece of data.
pub struct Thing {
    /// The name of a function as the linker has it.
    pub name: String,
    /// The number of bytes of a function's body, or of data.
    pub size: usize,
    /// The addresses of data in memory. Empty for a function.
    pub addresses: Range<u32>,
    /// What its code or its bytes refer to.
    pub refers: Vec<Reference>,
}

/// A reference.
#[derive(Clone, Copy)]
pub struct Reference {
    pub to: Node,
    /// Whether it is the address of a function, which may be called through it.
    pub address: bool,
}

impl Graph {
    /// Reads the graph of a module that was linked with `--emit-relocs`.
    pub fn read(module: &[u8]) -> Result<Self> {
        let mut imported = 0;
        let mut bodies = Vec::new(); // in the code section
        let mut segments = Vec::new(); // each with its address in memory, and where its bytes begin in the data section
        let mut symbols = Vec::new();
        let mut relocations: HashMap<u32, Vec<RelocationEntry>> = HashMap::new();
        let (mut index, mut code, mut data) = (0, (0, 0), 0);
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            match &payload {
                Payload::ImportSection(imports) => {
                    for import in imports.clone().into_imports() {
                        imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::CodeSectionStart { range, .. } => code = (index, range.start),
                Payload::CodeSectionEntry(body) => {
                    let range = body.range();
                    bodies.push(range.start - code.1..range.end - code.1);
                }
                Payload::DataSection(section) => {
                    data = index;
                    for segment in section.clone() {
                        let segment = segment?;
                        let start = segment.range.end - segment.data.len() - section.range().start;
                        segments.push((address(&segment)?, start));
                    }
                }
                Payload::CustomSection(custom) => match custom.as_known() {
                    KnownCustom::Linking(linking) => {
                        for part in linking.subsections() {
                            if let Linking::SymbolTable(table) = part? {
                                symbols = table.into_iter().collect::<Result<_, _>>()?;
                            }
                        }
                    }
                    KnownCustom::Reloc(reader) => {
                        let entries =
                            reader.entries().into_iter().collect::<Result<Vec<_>, _>>()?;
                        relocations.entry(reader.section_index()).or_default().extend(entries);
                    }
                    _ => {}
                },
                _ => {}
            }
            let is_section = payload.as_section().is_some();
            index += u32::from(is_section);
        }
        ensure!(!symbols.is_empty(), "the module has no symbols: link it with --emit-relocs");

        let mut nodes: Vec<Thing> =
            (0..imported + bodies.len()).map(|_| Thing::new(0..0)).collect();
        // The place of each piece of data in its section, beside its node.
        let mut places = Vec::new();
        let mut node_of = vec![None; symbols.len()];
        for (node, symbol) in node_of.iter_mut().zip(&symbols) {
            match symbol {
                SymbolInfo::Func { index, name, .. } => {
                    *node = Some(*index as usize);
                    if let Some(name) = name {
                        nodes[*index as usize].name = (*name).to_owned();
                    }
                }
                SymbolInfo::Data { symbol: Some(symbol), .. } => {
                    let (address, start) = segments
                        .get(symbol.index as usize)
                        .copied()
                        .context("a symbol lies in a data segment that is not there")?;
                    let start = start + symbol.offset as usize;
                    places.push((start..start + symbol.size as usize, nodes.len()));
                    *node = Some(nodes.len());
                    let address = address + symbol.offset;
                    nodes.push(Thing::new(address..address + symbol.size));
                }
                _ => {}
            }
        }

        let functions = bodies.iter().cloned().zip(imported..);
        for (section, places) in [(code.0, functions.collect()), (data, places)] {
            let mut relocations = relocations.remove(&section).unwrap_or_default();
            relocations.sort_by_key(|relocation| relocation.offset);
            for (place, node) in places {
                let from = relocations.partition_point(|r| (r.offset as usize) < place.start);
                let inside = relocations[from..].iter();
                let inside = inside.take_while(|r| (r.offset as usize) < place.end);
                let refers = inside.filter(|r| r.ty != RelocationType::TypeIndexLeb);
                nodes[node].size = place.len();
                nodes[node].refers.extend(refers.filter_map(|relocation| {
                    use RelocationType::{TableIndexI32, TableIndexSleb};
                    let to = node_of[relocation.index as usize]?;
                    let address = matches!(relocation.ty, TableIndexSleb | TableIndexI32);
                    Some(Reference { to, address })
                }));
            }
        }
        let by_end = bodies.iter().map(|body| body.end).zip(imported..).collect();
        Ok(Self { nodes, by_end })
    }

    /// The function whose body ends so many bytes after the start of the code section.
    pub fn function_that_ends_at(&self, end: usize) -> Option<Node> {
        self.by_end.get(&end).copied()
    }

    /// What can be reached from some functions on ways that enter nothing that is `closed`.
    pub fn reach(&self, from: impl IntoIterator<Item = Node>, closed: &[bool]) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        let mut open: Vec<Node> = from.into_iter().collect();
        while let Some(node) = open.pop() {
            if !closed[node] && !reached[node] {
                reached[node] = true;
                open.extend(self.nodes[node].refers.iter().map(|reference| reference.to));
            }
        }
        reached
    }
}

impl Thing {
    fn new(addresses: Range<u32>) -> Self {
        Self { name: String::new(), size: addresses.len(), addresses, refers: Vec::new() }
    }
}

/// Where a segment of data begins in memory.
fn address(segment: &Data<'_>) -> Result<u32> {
    let DataKind::Active { offset_expr, .. } = &segment.kind else { return Ok(0) };
    match offset_expr.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(value.cast_unsigned()),
        other => anyhow::bail!("a data segment begins at {other:?}, which is no constant"),
    }
}
