//! The model of `regard.Model`: `regard-models` in the process. `_model.py` has the documentation, and this file has the calls,
//! each of which releases the interpreter's lock.
//!
//! Changes and descriptions are passed as JSON. Arrays are passed as NumPy arrays that own the numbers of the run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::{
    PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;
use regard_models::{
    Baseline, Change, Checkpoint, Decoded, Description, Each, Error, Given, HeadAddress, Input,
    Logits, MeasuredLogit, Model, Pass, Place, Preparer, ReadAs, Sampler, Values, available_memory,
    read_wav,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::threads;

/// An array of NumPy, of float32.
type Floats<'py> = Bound<'py, PyArrayDyn<f32>>;

/// What a model is given to read: a text, the bytes of an image, the numbers of an image, of a spectrogram or of a recording, or
/// ids.
enum Words<'py> {
    Text(String),
    Bytes(PyReadonlyArrayDyn<'py, u8>),
    Numbers(PyReadonlyArrayDyn<'py, f32>),
    Ids(Vec<u32>),
}

impl<'py> FromPyObject<'_, 'py> for Words<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = given.extract() {
            return Ok(Self::Text(text));
        }
        if let Ok(bytes) = given.extract() {
            return Ok(Self::Bytes(bytes));
        }
        if let Ok(numbers) = given.extract() {
            return Ok(Self::Numbers(numbers));
        }
        Ok(Self::Ids(given.extract()?))
    }
}

impl Words<'_> {
    /// Calls `read` with what is given. `rate` is the number of a recording's samples in a second.
    fn with<T>(&self, rate: u32, read: impl FnOnce(Given<'_>) -> Result<T, Error>) -> PyResult<T> {
        let not_read = |e: &dyn std::fmt::Display| PyValueError::new_err(e.to_string());
        let given = match self {
            Self::Text(text) => Given::Text(text),
            Self::Ids(ids) => Given::Ids(ids),
            Self::Bytes(image) => {
                let &[height, width, 3] = image.shape() else {
                    let found = image.shape();
                    let what = format!("an image has the shape [height, width, 3], not {found:?}");
                    return Err(PyValueError::new_err(what));
                };
                let pixels = image.as_slice().map_err(|e| not_read(&e))?;
                Given::Image { pixels, size: [height, width] }
            }
            Self::Numbers(numbers) => {
                let data = numbers.as_slice().map_err(|e| not_read(&e))?;
                match numbers.shape() {
                    [_] => Given::Sound { samples: data, rate },
                    shape => Given::Numbers { shape, data },
                }
            }
        };
        read(given).map_err(python_error)
    }
}

/// An input that is ready to run.
#[pyclass(frozen, module = "regard._regard", name = "Prepared")]
pub(crate) struct Prepared {
    prepared: regard_models::Prepared,
    read_as: ReadAs,
}

#[pymethods]
impl Prepared {
    /// The names of the tokens.
    #[getter]
    fn tokens(&self) -> Vec<String> {
        self.prepared.tokens.clone()
    }

    /// The names of the decoder's tokens, if the model has an encoder too.
    #[getter]
    fn decoder_tokens(&self) -> Vec<String> {
        self.prepared.decoder_tokens.clone()
    }

    /// The words that the model does not know.
    #[getter]
    fn unknown(&self) -> Vec<String> {
        self.prepared.unknown.clone()
    }

    /// The ids of the tokens.
    #[getter]
    fn ids(&self) -> Vec<u32> {
        self.prepared.input.ids.clone()
    }

    /// The text to which each token belongs.
    #[getter]
    fn types(&self) -> Vec<u32> {
        self.prepared.input.types.clone()
    }

    /// The ids of the decoder's tokens.
    #[getter]
    fn decoder_ids(&self) -> Vec<u32> {
        self.prepared.input.decoder_ids.clone()
    }

    /// The numbers of tokens of both stacks.
    #[getter]
    fn lengths(&self) -> (usize, usize) {
        self.prepared.lengths().into()
    }
}

impl Prepared {
    fn input(&self) -> &Input {
        &self.prepared.input
    }
}

/// An unchanged run, from which changed runs of the same inputs begin.
#[pyclass(frozen, module = "regard._regard", name = "Unchanged")]
pub(crate) struct Unchanged(Baseline);

#[pymethods]
impl Unchanged {
    /// The logits of the unchanged run.
    fn logits<'py>(&self, py: Python<'py>) -> PyResult<Option<Floats<'py>>> {
        self.0.logits().map(|logits| array(py, logits.clone())).transpose()
    }
}

/// A value, from JSON.
struct Json<T>(T);

impl<T: DeserializeOwned> FromPyObject<'_, '_> for Json<T> {
    type Error = PyErr;

    fn extract(text: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let value = serde_json::from_str(&text.extract::<PyBackedStr>()?);
        value.map(Self).map_err(|e| PyValueError::new_err(e.to_string()))
    }
}

type Changes = Json<Vec<Change>>;

impl Changes {
    /// A forward pass with them.
    fn pass(self, model: &Model) -> Pass<'_> {
        self.0.into_iter().fold(model.pass(), Pass::change)
    }
}

/// A model with its weights and its tokenizer.
#[pyclass(frozen, module = "regard._regard", name = "Opened")]
pub(crate) struct Opened {
    preparer: Preparer,
    model: Model,
    threads: Option<usize>,
}

/// The Python error of a hook or of a signal that has ended a run.
#[derive(Clone, Default)]
struct Stopped(Arc<Mutex<Option<PyErr>>>);

impl Stopped {
    /// Records a Python error.
    fn by(&self, error: PyErr) -> Error {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        Error::Stopped
    }

    /// The error of a run, or the Python error that has ended it.
    fn or(self, error: Error) -> PyErr {
        let stopped = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        stopped.unwrap_or_else(|| python_error(error))
    }
}

impl Opened {
    /// Computes something with the model's threads and without the interpreter's lock.
    fn compute<T: Send>(
        &self,
        py: Python<'_>,
        compute: impl FnOnce(&Model) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.stoppable(py, |model, _| compute(model))
    }

    /// As `compute`, but a hook or a signal can end it.
    fn stoppable<T: Send>(
        &self,
        py: Python<'_>,
        compute: impl FnOnce(&Model, &Stopped) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let (pool, stopped) = (threads::pool(self.threads)?, Stopped::default());
        py.detach(|| pool.install(|| compute(&self.model, &stopped)))
            .map_err(|error| stopped.or(error))
    }
}

#[pymethods]
impl Opened {
    /// The names of the models that come with the package.
    #[classattr]
    const BUNDLED: [&'static str; 3] = regard_bundled::NAMES;

    /// Opens a model that comes with the package by its name, a folder, or a GGUF file.
    #[staticmethod]
    #[pyo3(signature = (path, threads))]
    fn open(py: Python<'_>, path: PathBuf, threads: Option<usize>) -> PyResult<Self> {
        let pool = threads::pool(threads)?;
        let open = || {
            let bundled = path.to_str().and_then(regard_bundled::checkpoint);
            let checkpoint = bundled.unwrap_or_else(|| Checkpoint::open(&path))?;
            let model = Model::load(&checkpoint)?;
            let preparer = Preparer::of(&checkpoint, model.description());
            Ok(Self { preparer, model, threads })
        };
        py.detach(|| pool.install(open)).map_err(python_error)
    }

    /// The description of the model, as JSON.
    fn description(&self) -> PyResult<String> {
        json(self.model.description())
    }

    /// The names of all places, in the order of computation.
    fn places(&self) -> Vec<String> {
        names(self.model.description().places())
    }

    /// The names of all heads, layer by layer.
    fn heads(&self) -> Vec<String> {
        self.model.description().heads().iter().map(ToString::to_string).collect()
    }

    /// The names of the places that match the patterns.
    fn named(&self, patterns: Vec<String>) -> PyResult<Vec<String>> {
        self.model.description().places_named(&patterns).map(names).map_err(python_error)
    }

    /// The names of arrays in transformers, with the places that each consists of, and whether these are stacked.
    fn outputs(&self) -> Vec<(String, Vec<String>, bool)> {
        let outputs = self.model.description().outputs().into_iter();
        outputs.map(|output| (output.name, names(output.places), output.is_stacked)).collect()
    }

    /// The places of the residual stream that a lens reads.
    fn streams(&self) -> Vec<String> {
        names(self.model.description().streams())
    }

    /// The number of logits of a position.
    fn logits(&self) -> usize {
        self.model.outputs()
    }

    /// A weight or a bias by its name, or `None` if the model does not have it.
    fn parameter<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Floats<'py>>> {
        let values = self.compute(py, |model| model.parameter(name))?;
        values.map(|values| array(py, values)).transpose()
    }

    /// Whether the model has a tokenizer.
    fn has_tokenizer(&self) -> bool {
        self.model.tokenizer().is_some()
    }

    /// What is given, ready to run.
    fn prepare(
        &self,
        given: Words<'_>,
        rate: u32,
        pair: Option<String>,
        chat: bool,
        decoder: Option<Words<'_>>,
    ) -> PyResult<Prepared> {
        let decoder = match decoder {
            None => None,
            Some(Words::Text(text)) => Some(Decoded::Text(text)),
            Some(Words::Ids(ids)) => Some(Decoded::Ids(ids)),
            Some(_) => return Err(PyValueError::new_err("decoder is a text, or ids")),
        };
        let read_as = ReadAs { pair, chat, decoder };
        let prepared =
            given.with(rate, |given| self.preparer.prepare(&self.model, given, &read_as))?;
        Ok(Prepared { prepared, read_as })
    }

    /// The input from which changes of the run on `beside` are taken, as JSON.
    fn source(
        &self,
        given: Words<'_>,
        rate: u32,
        beside: &Bound<'_, Prepared>,
    ) -> PyResult<String> {
        let Prepared { prepared, read_as } = beside.get();
        let other =
            |given: Given<'_>| self.preparer.other(&self.model, given, read_as, &prepared.input);
        json(&given.with(rate, other)?)
    }

    /// The numbers of queries and of keys of a head.
    fn edges(&self, head: &str, of: &Bound<'_, Prepared>) -> PyResult<(usize, usize)> {
        let head: HeadAddress = head.parse().map_err(python_error)?;
        Ok(head.attention.sides(of.get().prepared.lengths()).into())
    }

    /// The number of positions of a place.
    fn positions_at(&self, place: &str, of: &Bound<'_, Prepared>) -> PyResult<usize> {
        let place: Place = place.parse().map_err(python_error)?;
        Ok(self.description_of().positions_at(place, of.get().prepared.lengths()))
    }

    /// The logit of a token or of a class by its name.
    fn logit_named(&self, name: &str) -> PyResult<usize> {
        self.model.logit_named(name).map_err(python_error)
    }

    /// The position whose logits are read, their row, and whether the last position's are enough.
    fn measure(
        &self,
        given: &Bound<'_, Prepared>,
        plus: usize,
        minus: Option<usize>,
        position: Option<usize>,
    ) -> PyResult<(usize, usize, bool)> {
        let measure = MeasuredLogit::new(&self.model, given.get().input(), plus, minus, position);
        let MeasuredLogit { position, row, logits, .. } = measure.map_err(python_error)?;
        Ok((position, row, logits == Logits::Last))
    }

    /// The text of ids.
    fn decode(&self, ids: Vec<u32>) -> PyResult<String> {
        self.tokenizer()?.decode(&ids).map_err(python_error)
    }

    /// Tokens as the tokenizer writes them, or their ids.
    fn names(&self, ids: Vec<u32>) -> Vec<String> {
        self.model.names(&ids)
    }

    /// The samples of a WAV file, and their number in a second.
    #[staticmethod]
    fn wav<'py>(py: Python<'py>, file: &[u8]) -> PyResult<(Bound<'py, PyArray1<f32>>, u32)> {
        let (samples, rate) = read_wav(file).map_err(python_error)?;
        Ok((PyArray1::from_vec(py, samples), rate))
    }

    /// The unchanged run of inputs together.
    fn unchanged(&self, py: Python<'_>, inputs: Vec<Bound<'_, Prepared>>) -> PyResult<Unchanged> {
        let lengths = inputs.iter().map(|one| one.get().prepared.lengths());
        let bytes = |of: [usize; 2]| self.description_of().run_bytes(of, of[0].max(of[1]));
        allow(lengths.map(bytes).fold(0, u64::saturating_add))?;
        let inputs: Vec<Input> = inputs.iter().map(|one| one.get().input().clone()).collect();
        self.compute(py, |model| model.baselines(&inputs)).map(Unchanged)
    }

    /// The logits and the kept places of inputs that run together, after the layers that are as in the run `after`.
    #[pyo3(signature = (inputs, keep, changes, hooks, last, after = None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Bound<'py, Prepared>>,
        keep: Vec<String>,
        changes: Changes,
        hooks: Vec<(String, Py<PyAny>)>,
        last: bool,
        after: Option<Py<Unchanged>>,
    ) -> PyResult<(Option<Floats<'py>>, Bound<'py, PyDict>)> {
        let rows = if last { 1 } else { usize::MAX };
        let lengths: Vec<_> = inputs.iter().map(|one| one.get().prepared.lengths()).collect();
        let kept = self.description_of().places_named(&keep).map_err(python_error)?;
        let bytes = |lengths: &[usize; 2]| {
            let rows = rows.min(lengths[0].max(lengths[1]));
            let description = self.description_of();
            description
                .run_bytes(*lengths, rows)
                .saturating_add(description.place_bytes(&kept, *lengths))
        };
        allow(lengths.iter().map(bytes).fold(0, u64::saturating_add))?;
        let inputs: Vec<Input> = inputs.iter().map(|one| one.get().input().clone()).collect();
        let mut trace = self.stoppable(py, |model, stopped| {
            let mut pass = changes.pass(model).keep(keep);
            if let Some(after) = &after {
                pass = pass.after(&after.get().0);
            }
            if last {
                pass = pass.last_logits();
            }
            for (place, function) in hooks {
                let stopped = stopped.clone();
                pass = pass.hook(place, move |place, shape, data| {
                    Python::attach(|py| call(py, &function, place, shape, data))
                        .map_err(|error| stopped.by(error))
                });
            }
            match inputs.as_slice() {
                [one] => pass.run(one),
                several => pass.run_batch(several),
            }
        })?;
        let kept = PyDict::new(py);
        let places: Vec<Place> = trace.places().collect();
        for place in places {
            if let Some(values) = trace.take(place) {
                kept.set_item(place.to_string(), array(py, values)?)?;
            }
        }
        // A model without logits may have a vector of the whole input.
        let logits = trace.take_logits().or_else(|| trace.pooled().cloned());
        Ok((logits.map(|values| array(py, values)).transpose()?, kept))
    }

    /// The changes of a sweep: the layer of each, such as "2" or "cross.1", and its head or position.
    fn cells(&self, each: Json<Each>) -> PyResult<Vec<(String, usize)>> {
        let changes = self.model.changes(&each.0).map_err(python_error)?;
        let cell = |cell: regard_models::SweepCell| {
            let head = HeadAddress { attention: cell.attention, layer: cell.layer, head: 0 };
            let name = head.to_string();
            (name.strip_suffix(".0").unwrap_or(&name).to_owned(), cell.column)
        };
        Ok(changes.into_iter().map(|(of, _)| cell(of)).collect())
    }

    /// The logits of an input without changes, and with each change of a sweep alone. `done` is called with the number of changes
    /// that have run.
    fn sweep<'py>(
        &self,
        py: Python<'py>,
        given: &Bound<'py, Prepared>,
        each: Json<Each>,
        last: bool,
        done: Option<Py<PyAny>>,
    ) -> PyResult<(Floats<'py>, Floats<'py>)> {
        let given = given.get();
        let changes = self.model.changes(&each.0).map_err(python_error)?;
        let changes: Vec<Change> = changes.into_iter().map(|(_, change)| change).collect();
        let logits = if last { Logits::Last } else { Logits::All };
        let lengths = given.prepared.lengths();
        let rows = if last { 1 } else { lengths[0].max(lengths[1]) };
        let run = self.description_of().run_bytes(lengths, rows);
        allow(run.saturating_add(4 * (changes.len() * rows * self.model.outputs()) as u64))?;
        let (unchanged, all) = self.stoppable(py, |model, stopped| {
            let unchanged = model.baseline(given.input())?;
            let mut tell = |count: usize| {
                let tell = |py: Python<'_>| {
                    py.check_signals()?;
                    done.as_ref().map_or(Ok(()), |done| done.call1(py, (count,)).map(|_| ()))
                };
                Python::attach(tell).map_err(|error| stopped.by(error))
            };
            let all = model.sweep(&unchanged, &changes, logits, &mut tell)?;
            let logits = unchanged.logits().cloned();
            let missing = || Error::Unsupported("the model has no head, and no logits".into());
            Ok((logits.ok_or_else(missing)?, all))
        })?;
        let of_one = all.first().map_or_else(Vec::new, |values| values.shape.clone());
        let shape = [&[all.len()], of_one.as_slice()].concat();
        let mut data = Vec::with_capacity(shape.iter().product());
        all.into_iter().for_each(|values| data.extend(values.data));
        Ok((array(py, unchanged)?, array(py, Values { shape, data })?))
    }

    /// What each part adds to a logit, as JSON.
    fn attribute(
        &self,
        py: Python<'_>,
        given: &Bound<'_, Prepared>,
        changes: Changes,
        position: usize,
        plus: usize,
        minus: Option<usize>,
    ) -> PyResult<String> {
        let input = given.get().input();
        let parts =
            self.compute(py, |model| changes.pass(model).attribute(input, position, plus, minus))?;
        json(&parts)
    }

    /// A score of a head, unfolded into its steps, as JSON.
    fn score(
        &self,
        py: Python<'_>,
        given: &Bound<'_, Prepared>,
        changes: Changes,
        head: &str,
        query: usize,
        key: usize,
    ) -> PyResult<String> {
        let head = head.parse().map_err(python_error)?;
        let input = given.get().input();
        let score = self.compute(py, |model| changes.pass(model).score(input, head, query, key))?;
        json(&score)
    }

    /// The logits of a residual stream [tokens, width].
    fn lens<'py>(
        &self,
        py: Python<'py>,
        stream: PyReadonlyArrayDyn<'py, f32>,
    ) -> PyResult<Option<Floats<'py>>> {
        let data = stream.as_slice().map_err(|e| PyValueError::new_err(e.to_string()))?.to_vec();
        let stream = Values { shape: stream.shape().to_vec(), data };
        let logits = self.compute(py, |model| model.lens(&stream))?;
        logits.map(|values| array(py, values)).transpose()
    }

    /// The probability of each token or class of a position, or `None` of a regression.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        logits: PyReadonlyArray1<'py, f32>,
    ) -> PyResult<Option<Bound<'py, PyArray1<f64>>>> {
        let probabilities = self.model.description().probabilities(&logits.to_vec()?);
        Ok(probabilities.map(|probabilities| PyArray1::from_vec(py, probabilities)))
    }

    /// The tokens with which the model continues an input.
    fn generate(
        &self,
        py: Python<'_>,
        given: &Bound<'_, Prepared>,
        changes: Changes,
        tokens: usize,
        temperature: f64,
        seed: u32,
    ) -> PyResult<Vec<u32>> {
        let sampler = Sampler::new(temperature, seed).map_err(python_error)?;
        let Prepared { prepared, .. } = given.get();
        let lengths = prepared.lengths();
        let description = self.description_of();
        let written = if description.encoder.is_some() { lengths[1] } else { lengths[0] };
        let cache = description.cache_bytes(written.saturating_add(tokens));
        allow(description.run_bytes(lengths, 1).saturating_add(cache))?;
        self.stoppable(py, |model, stopped| {
            let mut ids = Vec::new();
            for id in model.write(&prepared.input, tokens, &changes.0, sampler)? {
                ids.push(id?);
                Python::attach(|py| py.check_signals()).map_err(|error| stopped.by(error))?;
            }
            Ok(ids)
        })
    }
}

impl Opened {
    fn description_of(&self) -> &Description {
        self.model.description()
    }

    fn tokenizer(&self) -> PyResult<&regard_models::Tokenizer> {
        let missing = |e| PyValueError::new_err(format!("{e}: give ids instead of a text"));
        self.model.need_tokenizer().map_err(missing)
    }
}

fn names(places: Vec<Place>) -> Vec<String> {
    places.into_iter().map(String::from).collect()
}

/// Calls a hook with an array that owns the numbers during the call.
fn call(
    py: Python<'_>,
    function: &Py<PyAny>,
    place: Place,
    shape: &[usize],
    data: &mut Vec<f32>,
) -> PyResult<()> {
    let given = PyArray1::from_vec(py, std::mem::take(data)).reshape(shape)?;
    let result = function.bind(py).call1((&given, place.to_string()))?;
    if result.is_none() {
        // The function may have changed the array's type and shape in place, which say how long its numbers are.
        let given: &Bound<'_, PyUntypedArray> = given.as_untyped();
        let (kind, found) = (given.dtype(), given.shape());
        let Ok(numbers) = given.cast::<PyArrayDyn<f32>>() else {
            return Err(PyValueError::new_err(format!(
                "the hook at {place} makes its array one of {kind}, but the place has float32: return another array instead"
            )));
        };
        if found != shape {
            return Err(PyValueError::new_err(format!(
                "the hook at {place} gives its array the shape {found:?}, but the place has {shape:?}"
            )));
        }
        *data = numbers.to_vec()?;
        return Ok(());
    }
    let numpy = crate::tensor::numpy(py)?;
    let result = numpy.call_method1("ascontiguousarray", (result, "float32"))?;
    let result: Floats<'_> = result.cast_into()?;
    if result.shape() != shape {
        let found = result.shape();
        return Err(PyValueError::new_err(format!(
            "the hook at {place} returns an array of the shape {found:?}, but the place has {shape:?}"
        )));
    }
    *data = result.to_vec()?;
    Ok(())
}

/// An array that owns the numbers.
fn array(py: Python<'_>, values: Values) -> PyResult<Floats<'_>> {
    PyArray1::from_vec(py, values.data).reshape(values.shape)
}

/// Refuses a run that takes more memory than there is.
fn allow(bytes: u64) -> PyResult<()> {
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    match available_memory() {
        Some(available) if available < bytes => Err(PyMemoryError::new_err(format!(
            "the run takes {:.1} GB, and there are {:.1} GB of memory left",
            gigabytes(bytes),
            gigabytes(available)
        ))),
        _ => Ok(()),
    }
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn python_error(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Io { .. } => PyOSError::new_err(text),
        Error::Compute(regard::Error::Memory { .. }) => PyMemoryError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
