//! Splits a module in two: the first holds what the page needs to draw, the second ("the rest") what only some functions reach.
//!
//! # Algorithm
//!
//! 1. *What moves.* A function is *late* if its name says so and it is not short. (Of short functions with the same code, the compiler
//!    keeps one, under the name of any of them.) Follow the references from the exports and from the start function,
//!    but enter no late function. What is reached stays in the first module. All else moves to the second: the late functions, and
//!    the functions and the data that only they need.
//! 2. *Calls from the first module to the second.* A moved function that the first module calls, exports or holds the address of
//!    leaves a stub behind. The stub calls the import `rest` if the second module is not there, and then calls a slot of the table
//!    of functions. `rest` returns when the second module is there.
//! 3. *Calls from the second module to the first.* The first module exports what the second one calls, under numbers, and its
//!    tables and globals. A function of JavaScript is called through a function of the first module: a caller can wait for a promise
//!    only if all functions in between are WebAssembly's own.
//! 4. *Instantiating the second module* writes its functions into their slots of the table, and its data into memory.
//!
//! The two modules belong together: the second imports the memory under a name that is made from the bytes of the whole.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use anyhow::{Context as _, Result, bail};
use walrus::ir::{Value, Visitor, dfs_in_order};
use walrus::{
    ConstExpr, Data, DataId, DataKind, ElementItems, ElementKind, Export, ExportItem, Function,
    FunctionBuilder, FunctionId, FunctionKind, Global, GlobalId, GlobalKind, ImportedFunction,
    InstrSeqBuilder, LocalFunction, Memory, MemoryId, Module, ModuleConfig, Table, TableId,
    ValType,
};

use crate::graph::{Graph, Node, Thing};

/// Marks the name of a moved function between the analysis of the module and its two copies.
const MOVED: char = '\u{1}';
/// Marks the name of a moved function whose address the first module holds, too.
const KNOWN: char = '\u{2}';

/// A function with fewer bytes is not late, whatever its name.
const LEAST_LATE: usize = 100;

/// Data shorter than this stays in the first module: a segment has a head of about 7 bytes, in both modules.
const LEAST_DATA: usize = 16;

/// The module that imports these names is the second; its imports come from an object of this name.
const FIRST: &str = "first";

/// Splits a module that is made from `linked`, the module that the linker wrote with `--emit-relocs`. `late` says whether the name of a
/// function is that of a late one. The import `rest` comes from `script`.
pub fn split(
    linked: &[u8],
    mut module: Module,
    late: impl Fn(&str) -> bool,
    script: &str,
) -> Result<[Vec<u8>; 2]> {
    let graph = Graph::read(linked)?;
    let is_late = |thing: &Thing| {
        thing.size >= LEAST_LATE && late(&format!("{:#}", rustc_demangle::demangle(&thing.name)))
    };
    let closed: Vec<bool> = graph.nodes.iter().map(is_late).collect();
    let kept = graph.reach(roots(&module, &graph), &closed);
    mark(&mut module, &graph, &kept);
    remove_relocations(&mut module);
    let mut halves = Halves::of(&module.emit_wasm())?;
    halves.leave_stubs(script)?;
    halves.lend();
    let data = MovedData::new(&graph, &kept);
    data.cut(&mut halves.first, false)?;
    data.cut(&mut halves.second, true)?;
    walrus::passes::gc::run(&mut halves.first);
    walrus::passes::gc::run(&mut halves.second);
    Ok([halves.first.emit_wasm(), halves.second.emit_wasm()])
}

/// Two copies of a module on their way to become the first and the second module.
struct Halves {
    first: Module,
    second: Module,
    /// The second copy's function for each of the first's. Functions are named by the first's ids below.
    far: HashMap<FunctionId, FunctionId>,
    moved: HashSet<FunctionId>,
    /// What moves although the first module holds its address.
    known: HashSet<FunctionId>,
    called_by_moved: BTreeSet<FunctionId>,
    called_by_kept: BTreeSet<FunctionId>,
    /// In the first module: whether the second is there.
    here: GlobalId,
    /// A name for the two, which no other version has.
    version: String,
    /// How many exports have numbers for names.
    numbered: u32,
}

impl Halves {
    /// Parses the marked module twice.
    fn of(whole: &[u8]) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        whole.hash(&mut hasher);
        let mut config = ModuleConfig::new();
        config.strict_validate(false).generate_producers_section(false);
        let (mut first, mut second) = (config.parse(whole)?, config.parse(whole)?);
        let near = first.funcs.iter().map(Function::id);
        let far = near.zip(second.funcs.iter().map(Function::id)).collect();
        let (moved, known) = unmark(&mut first);
        unmark(&mut second);
        let (mut called_by_moved, mut called_by_kept) = (BTreeSet::new(), BTreeSet::new());
        for (id, function) in first.funcs.iter_local() {
            let called =
                if moved.contains(&id) { &mut called_by_moved } else { &mut called_by_kept };
            called.extend(callees(function));
        }
        let zero = ConstExpr::Value(Value::I32(0));
        let here = first.globals.add_local(ValType::I32, true, false, zero);
        let version = format!("{:016x}", hasher.finish());
        Ok(Self {
            first,
            second,
            far,
            moved,
            known,
            called_by_moved,
            called_by_kept,
            here,
            version,
            numbered: 0,
        })
    }

    /// Replaces what moves by stubs in the first module, and fills the table in both.
    fn leave_stubs(&mut self, script: &str) -> Result<()> {
        let (table, far_table) = (table(&self.first)?, table(&self.second)?);
        let mut slots = take_elements(&mut self.first, table)?;
        take_elements(&mut self.second, far_table)?;
        let slot_of: HashMap<_, _> = slots.iter().map(|(slot, id)| (*id, *slot)).collect();
        let exported = self.first.exports.iter().filter_map(function);
        let used =
            exported.chain(self.called_by_kept.iter().copied()).chain(self.known.iter().copied());
        let stubs: BTreeSet<_> = used.filter(|id| self.moved.contains(id)).collect();

        let nothing = self.first.types.add(&[], &[]);
        let (rest, _) = self.first.add_import_func(script, "rest", nothing);
        let here = self.here;
        let mut size = u32::try_from(self.first.tables.get(table).initial)?;
        for id in stubs {
            let slot = slot_of.get(&id).copied().unwrap_or_else(|| {
                slots.insert(size, id);
                size += 1;
                size - 1
            });
            let ty = self.first.funcs.get(id).ty();
            let load = |body: &mut InstrSeqBuilder<'_>| {
                body.global_get(here).if_else(
                    None,
                    |_| {},
                    |absent| {
                        absent.call(rest);
                    },
                );
            };
            let stub = forward(&mut self.first, id, load, |body| {
                body.i32_const(slot.cast_signed()).call_indirect(ty, table);
            });
            self.first.funcs.get_mut(id).kind = FunctionKind::Local(stub);
        }
        for table in [self.first.tables.get_mut(table), self.second.tables.get_mut(far_table)] {
            table.maximum = table.maximum.map(|maximum| maximum.max(u64::from(size)));
            table.initial = u64::from(size);
        }
        let (moved, known) = (&self.moved, &self.known);
        let in_first = slots.iter().filter(|(_, id)| !moved.contains(id) || known.contains(id));
        put_elements(&mut self.first, table, in_first.map(|(slot, id)| (*slot, *id)));
        let in_second = slots.iter().filter(|(_, id)| moved.contains(id));
        put_elements(
            &mut self.second,
            far_table,
            in_second.map(|(slot, id)| (*slot, self.far[id])),
        );
        Ok(())
    }

    /// Lets the second module import from the first what it needs, and nothing else.
    fn lend(&mut self) {
        for export in self.second.exports.iter().map(Export::id).collect::<Vec<_>>() {
            self.second.exports.delete(export);
        }
        for id in core::mem::take(&mut self.called_by_moved) {
            if !self.moved.contains(&id) {
                self.lend_function(id);
            }
        }
        let memories = pairs(self.first.memories.iter(), self.second.memories.iter(), Memory::id);
        for (near, far) in memories {
            self.first.exports.add(&self.version, near);
            let import = self.second.imports.add(FIRST, &self.version, far);
            self.second.memories.get_mut(far).import = Some(import);
        }
        for (near, far) in pairs(self.first.tables.iter(), self.second.tables.iter(), Table::id) {
            let name = self.next();
            self.first.exports.add(&name, near);
            self.second.tables.get_mut(far).import =
                Some(self.second.imports.add(FIRST, &name, far));
        }
        for (near, far) in pairs(self.first.globals.iter(), self.second.globals.iter(), Global::id)
        {
            let name = self.next();
            self.first.exports.add(&name, near);
            let import = self.second.imports.add(FIRST, &name, far);
            self.second.globals.get_mut(far).kind = GlobalKind::Import(import);
        }
        // Its start function says that it is there.
        let name = self.next();
        self.first.exports.add(&name, self.here);
        let (here, _) = self.second.add_import_global(FIRST, &name, ValType::I32, true, false);
        let mut start = FunctionBuilder::new(&mut self.second.types, &[], &[]);
        start.func_body().i32_const(1).global_set(here);
        self.second.start = Some(start.finish(Vec::new(), &mut self.second.funcs));
    }

    /// Lends a function that stays, or one of JavaScript.
    fn lend_function(&mut self, id: FunctionId) {
        let name = self.next();
        let far = self.far[&id];
        let ty = self.second.funcs.get(far).ty();
        let mut lent = id;
        if matches!(self.first.funcs.get(id).kind, FunctionKind::Import(_)) {
            let through = forward(
                &mut self.first,
                id,
                |_| {},
                |body| {
                    body.call(id);
                },
            );
            lent = self.first.funcs.add_local(through);
        }
        self.first.exports.add(&name, lent);
        let import = match &self.second.funcs.get(far).kind {
            FunctionKind::Import(function) => function.import,
            _ => self.second.imports.add(FIRST, &name, far),
        };
        let imported = self.second.imports.get_mut(import);
        (imported.module, imported.name) = (FIRST.to_owned(), name);
        self.second.funcs.get_mut(far).kind = FunctionKind::Import(ImportedFunction { import, ty });
    }

    /// The name of the next export.
    fn next(&mut self) -> String {
        self.numbered += 1;
        self.numbered.to_string()
    }
}

/// The items of one module, each beside that of its copy.
fn pairs<'a, T: 'a, Id>(
    near: impl Iterator<Item = &'a T>,
    far: impl Iterator<Item = &'a T>,
    id: fn(&T) -> Id,
) -> Vec<(Id, Id)> {
    near.map(id).zip(far.map(id)).collect()
}

/// The table of functions.
fn table(module: &Module) -> Result<TableId> {
    module.tables.main_function_table()?.context("the module has no table of functions")
}

/// The function that is exported, if it is one.
fn function(export: &Export) -> Option<FunctionId> {
    match export.item {
        ExportItem::Function(id) => Some(id),
        _ => None,
    }
}

/// Removes what the linker wrote for [`Graph`]. It is not true of what bindgen has changed.
fn remove_relocations(module: &mut Module) {
    let names = module.customs.iter().map(|(_, section)| section.name().to_owned());
    for name in names.collect::<Vec<_>>() {
        if name == "linking" || name.starts_with("reloc.") {
            module.customs.remove_raw(&name);
        }
    }
}

/// Where following begins: the exports, the start function, and what the functions that were added after linking call.
fn roots(module: &Module, graph: &Graph) -> Vec<Node> {
    let mut roots: Vec<FunctionId> = module.start.into_iter().collect();
    roots.extend(module.exports.iter().filter_map(function));
    for (_, function) in module.funcs.iter_local() {
        if node(function, graph).is_none() {
            roots.extend(callees(function));
        }
    }
    let local = roots.into_iter().filter_map(|id| match &module.funcs.get(id).kind {
        FunctionKind::Local(function) => node(function, graph),
        _ => None,
    });
    local.collect()
}

/// A function's node in the graph of the linked module.
fn node(function: &LocalFunction, graph: &Graph) -> Option<Node> {
    graph.function_that_ends_at(function.original_range.as_ref()?.end)
}

/// The functions that a function calls.
fn callees(function: &LocalFunction) -> BTreeSet<FunctionId> {
    struct Calls(BTreeSet<FunctionId>);
    impl<'a> Visitor<'a> for Calls {
        fn visit_function_id(&mut self, id: &FunctionId) {
            self.0.insert(*id);
        }
    }
    let mut calls = Calls(BTreeSet::new());
    dfs_in_order(&mut calls, function, function.entry_block());
    calls.0
}

/// Marks what moves in the names of the functions, which the two copies of the module will have, too.
fn mark(module: &mut Module, graph: &Graph, kept: &[bool]) {
    let mut known = HashSet::new();
    for (thing, _) in graph.nodes.iter().zip(kept).filter(|(_, kept)| **kept) {
        known.extend(thing.refers.iter().filter(|refers| refers.address).map(|refers| refers.to));
    }
    for function in module.funcs.iter_mut() {
        let FunctionKind::Local(local) = &function.kind else { continue };
        if let Some(node) = node(local, graph).filter(|node| !kept[*node]) {
            let mark = if known.contains(&node) { KNOWN } else { MOVED };
            let name = function.name.take().unwrap_or_default();
            function.name = Some(format!("{mark}{name}"));
        }
    }
}

/// Takes the marks away. Returns the functions that move, and those of them whose addresses the first module holds.
fn unmark(module: &mut Module) -> (HashSet<FunctionId>, HashSet<FunctionId>) {
    let (mut moved, mut known) = (HashSet::new(), HashSet::new());
    for function in module.funcs.iter_mut() {
        let id = function.id();
        let Some(name) = &mut function.name else { continue };
        if name.starts_with([MOVED, KNOWN]) {
            moved.insert(id);
            if name.remove(0) == KNOWN {
                known.insert(id);
            }
        }
    }
    (moved, known)
}

/// A function with the parameters and the results of another: does something, then hands its arguments to a call.
fn forward(
    module: &mut Module,
    like: FunctionId,
    before: impl FnOnce(&mut InstrSeqBuilder<'_>),
    call: impl FnOnce(&mut InstrSeqBuilder<'_>),
) -> LocalFunction {
    let ty = module.types.get(module.funcs.get(like).ty());
    let (parameters, results) = (ty.params().to_vec(), ty.results().to_vec());
    let mut function = FunctionBuilder::new(&mut module.types, &parameters, &results);
    let arguments: Vec<_> = parameters.iter().map(|ty| module.locals.add(*ty)).collect();
    let mut body = function.func_body();
    before(&mut body);
    for argument in &arguments {
        body.local_get(*argument);
    }
    call(&mut body);
    function.local_func(arguments)
}

/// Removes what initialises a table. Returns the function in each of its slots.
fn take_elements(module: &mut Module, table: TableId) -> Result<BTreeMap<u32, FunctionId>> {
    let mut slots = BTreeMap::new();
    let segments: Vec<_> = module.tables.get_mut(table).elem_segments.drain().collect();
    for id in segments {
        let element = module.elements.get(id);
        let ElementKind::Active { offset: ConstExpr::Value(Value::I32(offset)), .. } = element.kind
        else {
            bail!("a segment of the table begins at no constant");
        };
        let ElementItems::Functions(functions) = &element.items else {
            bail!("a segment of the table holds expressions");
        };
        slots.extend((offset.cast_unsigned()..).zip(functions.iter().copied()));
        module.elements.delete(id);
    }
    Ok(slots)
}

/// Initialises slots of a table, in ascending order: a segment for each run of neighbours.
fn put_elements(
    module: &mut Module,
    table: TableId,
    slots: impl Iterator<Item = (u32, FunctionId)>,
) {
    let mut runs: Vec<(u32, Vec<FunctionId>)> = Vec::new();
    for (slot, id) in slots {
        match runs.last_mut() {
            Some((start, run)) if *start as usize + run.len() == slot as usize => run.push(id),
            _ => runs.push((slot, vec![id])),
        }
    }
    for (start, run) in runs {
        let offset = ConstExpr::Value(Value::I32(start.cast_signed()));
        let id = module
            .elements
            .add(ElementKind::Active { table, offset }, ElementItems::Functions(run));
        module.tables.get_mut(table).elem_segments.insert(id);
    }
}

/// Which bytes of the memory's initial contents move.
struct MovedData {
    /// Addresses of data that moves, and of data that stays. They overlap where two symbols share bytes: those stay.
    moved: Vec<Range<u32>>,
    kept: Vec<Range<u32>>,
}

impl MovedData {
    fn new(graph: &Graph, kept: &[bool]) -> Self {
        let data = graph.nodes.iter().zip(kept).filter(|(thing, _)| !thing.addresses.is_empty());
        let (stay, go): (Vec<_>, Vec<_>) = data.partition(|(_, kept)| **kept);
        let addresses = |list: Vec<(&Thing, &bool)>| {
            list.into_iter().map(|(thing, _)| thing.addresses.clone()).collect()
        };
        Self { moved: addresses(go), kept: addresses(stay) }
    }

    /// Keeps only the data that moves, or only what stays.
    fn cut(&self, module: &mut Module, moves: bool) -> Result<()> {
        for id in module.data.iter().map(Data::id).collect::<Vec<_>>() {
            let data = module.data.get(id);
            let DataKind::Active { memory, offset: ConstExpr::Value(Value::I32(address)) } =
                data.kind
            else {
                continue;
            };
            let runs = self.runs(address.cast_unsigned(), &data.value, moves);
            let pieces: Vec<_> =
                runs.into_iter().map(|run| (run.start, data.value[run].to_vec())).collect();
            remove(module, memory, id);
            for (start, bytes) in pieces {
                let start = address.cast_unsigned() + u32::try_from(start)?;
                let offset = ConstExpr::Value(Value::I32(start.cast_signed()));
                let id = module.data.add(DataKind::Active { memory, offset }, bytes);
                module.memories.get_mut(memory).data_segments.insert(id);
            }
        }
        Ok(())
    }

    /// The runs of bytes in a segment at an address that move, or that stay.
    fn runs(&self, address: u32, bytes: &[u8], moves: bool) -> Vec<Range<usize>> {
        // Bytes of no symbol stay. Zeros between two symbols, which align the second, go with the first.
        let mut goes: Vec<Option<bool>> =
            bytes.iter().map(|byte| (*byte != 0).then_some(false)).collect();
        for (ranges, value) in [(&self.moved, true), (&self.kept, false)] {
            for range in ranges {
                let start = range.start.saturating_sub(address) as usize;
                let end = (range.end.saturating_sub(address) as usize).min(bytes.len());
                if range.start >= address && start < end {
                    goes[start..end].fill(Some(value));
                }
            }
        }
        let mut last = false;
        let mut runs: Vec<(bool, Range<usize>)> = Vec::new();
        for (i, goes) in goes.into_iter().enumerate() {
            last = goes.unwrap_or(last);
            match runs.last_mut() {
                Some((value, run)) if *value == last => run.end = i + 1,
                _ => runs.push((last, i..i + 1)),
            }
        }
        for (goes, run) in &mut runs {
            *goes &= run.len() >= LEAST_DATA;
        }
        runs.dedup_by(|(next, run), (before, all)| {
            let same = next == before;
            if same {
                all.end = run.end;
            }
            same
        });
        runs.into_iter().filter(|(goes, _)| *goes == moves).map(|(_, run)| run).collect()
    }
}

/// Removes a segment of data.
fn remove(module: &mut Module, memory: MemoryId, id: DataId) {
    module.memories.get_mut(memory).data_segments.remove(&id);
    module.data.delete(id);
}
