//! The model of `regard.Model`: `regard-models` in the process. `_model.py` has the documentation, and this file has the calls,
//! each of which releases the interpreter's lock.
//!
//! Changes and descriptions are passed as JSON. Arrays are passed as NumPy arrays that own the numbers of the run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::{
    PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;
use regard_models::{
    AudioProcessor, Change, ChatTemplate, Checkpoint, Error, ImageProcessor, Input, Logits,
    Message, Model, Pass, Place, Sampler, Values, read_wav,
};
use serde::Serialize;

use crate::threads;

/// An input: its tokens, their types, the decoder's tokens, the pixels and the spectrogram.
struct Given(Input);

impl<'py> FromPyObject<'_, 'py> for Given {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        type Numbers<'py> = Option<PyReadonlyArray1<'py, f32>>;
        type Parts<'py> = (Vec<u32>, Vec<u32>, Vec<u32>, Numbers<'py>, Numbers<'py>);
        let (ids, types, decoder_ids, pixels, features): Parts<'py> = given.extract()?;
        let numbers = |x: Numbers<'py>| x.map_or_else(|| Ok(Vec::new()), |x| x.to_vec());
        let (pixels, features) = (numbers(pixels)?, numbers(features)?);
        Ok(Self(Input { ids, types, decoder_ids, pixels, features }))
    }
}

/// Changes, from JSON.
struct Changes(Vec<Change>);

impl FromPyObject<'_, '_> for Changes {
    type Error = PyErr;

    fn extract(text: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let changes = serde_json::from_str(&text.extract::<PyBackedStr>()?);
        changes.map(Self).map_err(|e| PyValueError::new_err(e.to_string()))
    }
}

impl Changes {
    /// A forward pass with them.
    fn pass(self, model: &Model) -> Pass<'_> {
        self.0.into_iter().fold(model.pass(), Pass::change)
    }
}

/// A model with its weights and its tokenizer.
#[pyclass(frozen, module = "regard._regard", name = "Opened")]
pub(crate) struct Opened {
    checkpoint: Checkpoint,
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
    /// Opens a folder or a GGUF file, or the model that comes with the package.
    #[staticmethod]
    #[pyo3(signature = (path, threads))]
    fn open(py: Python<'_>, path: Option<PathBuf>, threads: Option<usize>) -> PyResult<Self> {
        let pool = threads::pool(threads)?;
        let open = || {
            let checkpoint = match path {
                Some(path) => Checkpoint::open(path),
                None => Checkpoint::from_files("story", regard_story::FILES),
            }?;
            let model = Model::load(&checkpoint)?;
            Ok(Self { checkpoint, model, threads })
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
    fn parameter<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Option<Bound<'py, PyArrayDyn<f32>>>> {
        let values = self.compute(py, |model| model.parameter(name))?;
        values.map(|values| array(py, values)).transpose()
    }

    /// Whether the model has a tokenizer.
    fn has_tokenizer(&self) -> bool {
        self.model.tokenizer().is_some()
    }

    /// The ids of a text or of two texts, and the text that each token belongs to.
    #[pyo3(signature = (text, pair))]
    fn encode(&self, text: &str, pair: Option<&str>) -> PyResult<(Vec<u32>, Vec<u32>)> {
        let input = self.tokenizer()?.encode(text, pair).map_err(python_error)?;
        Ok((input.ids, input.types))
    }

    /// The ids of a text without special tokens.
    fn encode_as_is(&self, text: &str) -> PyResult<Vec<u32>> {
        self.tokenizer()?.encode_as_is(text).map_err(python_error)
    }

    /// The text of ids.
    fn decode(&self, ids: Vec<u32>) -> PyResult<String> {
        self.tokenizer()?.decode(&ids).map_err(python_error)
    }

    /// A token as the tokenizer writes it.
    fn token(&self, id: u32) -> Option<String> {
        self.model.tokenizer()?.token(id)
    }

    /// The id of a token as the tokenizer writes it.
    fn id(&self, token: &str) -> Option<u32> {
        self.model.tokenizer()?.id(token)
    }

    /// The words of a text that the model does not know.
    fn unknown(&self, text: &str) -> PyResult<Vec<String>> {
        self.tokenizer()?.unknown(text).map_err(python_error)
    }

    /// A text as a message of the user in the model's chat template.
    fn prompt(&self, text: &str) -> PyResult<String> {
        let template = ChatTemplate::of(&self.checkpoint).map_err(python_error)?;
        let template =
            template.ok_or_else(|| PyValueError::new_err("the model has no chat template"))?;
        let message = Message { role: "user".to_owned(), content: text.to_owned() };
        template.prompt(&[message]).map_err(python_error)
    }

    /// The pixels of an image [height, width, 3], in the form that the model reads.
    fn image<'py>(
        &self,
        py: Python<'py>,
        image: PyReadonlyArrayDyn<'py, u8>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let &[height, width, 3] = image.shape() else {
            let found = image.shape();
            return Err(PyValueError::new_err(format!(
                "an image has the shape [height, width, 3], not {found:?}"
            )));
        };
        let processor = ImageProcessor::of(&self.checkpoint, self.model.description());
        let read = |processor: ImageProcessor| {
            processor.read(image.as_slice().unwrap_or_default(), [height, width])
        };
        let input = processor.and_then(read).map_err(python_error)?;
        Ok(PyArray1::from_vec(py, input.pixels))
    }

    /// The log-mel spectrogram of samples, of which there are `rate` a second.
    fn audio<'py>(
        &self,
        py: Python<'py>,
        samples: PyReadonlyArray1<'py, f32>,
        rate: u32,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let processor = AudioProcessor::of(&self.checkpoint, self.model.description());
        let samples = samples.to_vec()?;
        let input = processor.and_then(|processor| processor.read(&samples, rate));
        Ok(PyArray1::from_vec(py, input.map_err(python_error)?.features))
    }

    /// The samples of a WAV file, and their number in a second.
    #[staticmethod]
    fn wav<'py>(py: Python<'py>, file: &[u8]) -> PyResult<(Bound<'py, PyArray1<f32>>, u32)> {
        let (samples, rate) = read_wav(file).map_err(python_error)?;
        Ok((PyArray1::from_vec(py, samples), rate))
    }

    /// The time from one position of a recording to the next, in seconds, if the files say how a recording is read.
    fn seconds(&self) -> Option<f64> {
        let processor = AudioProcessor::of(&self.checkpoint, self.model.description());
        processor.ok().map(|processor| processor.seconds())
    }

    /// The logits and the kept places of inputs that run together.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Given>,
        keep: Vec<String>,
        changes: Changes,
        hooks: Vec<(String, Py<PyAny>)>,
        last: bool,
    ) -> PyResult<(Option<Bound<'py, PyArrayDyn<f32>>>, Bound<'py, PyDict>)> {
        let inputs: Vec<Input> = inputs.into_iter().map(|Given(input)| input).collect();
        let mut trace = self.stoppable(py, |model, stopped| {
            let mut pass = changes.pass(model).keep(keep);
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
        let logits = trace.take_logits().map(|values| array(py, values)).transpose()?;
        Ok((logits, kept))
    }

    /// The logits of an input without changes, and with each change alone, or with the stream of another input at each place in
    /// turn. `done` is called with the number of changes that have run.
    fn sweep<'py>(
        &self,
        py: Python<'py>,
        given: Given,
        changes: Changes,
        from_: Option<Given>,
        last: bool,
        done: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyArrayDyn<f32>>, Bound<'py, PyArrayDyn<f32>>)> {
        let changes = match &from_ {
            Some(from) => self.model.patches(&from.0),
            None => changes.0,
        };
        let logits = if last { Logits::Last } else { Logits::All };
        let (unchanged, all) = self.stoppable(py, |model, stopped| {
            let unchanged = model.baseline(&given.0)?;
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
        given: Given,
        changes: Changes,
        position: usize,
        plus: usize,
        minus: Option<usize>,
    ) -> PyResult<String> {
        let parts = self
            .compute(py, |model| changes.pass(model).attribute(&given.0, position, plus, minus))?;
        json(&parts)
    }

    /// A score of a head, unfolded into its steps, as JSON.
    fn score(
        &self,
        py: Python<'_>,
        given: Given,
        changes: Changes,
        head: &str,
        query: usize,
        key: usize,
    ) -> PyResult<String> {
        let head = head.parse().map_err(python_error)?;
        let score =
            self.compute(py, |model| changes.pass(model).score(&given.0, head, query, key))?;
        json(&score)
    }

    /// The logits of a residual stream [tokens, width].
    fn lens<'py>(
        &self,
        py: Python<'py>,
        stream: PyReadonlyArrayDyn<'py, f32>,
    ) -> PyResult<Option<Bound<'py, PyArrayDyn<f32>>>> {
        let data = stream.as_slice().map_err(|e| PyValueError::new_err(e.to_string()))?.to_vec();
        let stream = Values { shape: stream.shape().to_vec(), data };
        let logits = self.compute(py, |model| model.lens(&stream))?;
        logits.map(|values| array(py, values)).transpose()
    }

    /// The tokens with which the model continues an input.
    fn generate(
        &self,
        py: Python<'_>,
        given: Given,
        changes: Changes,
        tokens: usize,
        temperature: f64,
        seed: u32,
    ) -> PyResult<Vec<u32>> {
        let sampler = Sampler::new(temperature, seed).map_err(python_error)?;
        self.stoppable(py, |model, stopped| {
            let mut ids = Vec::new();
            for id in model.write(&given.0, tokens, &changes.0, sampler)? {
                ids.push(id?);
                Python::attach(|py| py.check_signals()).map_err(|error| stopped.by(error))?;
            }
            Ok(ids)
        })
    }
}

impl Opened {
    fn tokenizer(&self) -> PyResult<&regard_models::Tokenizer> {
        let missing =
            || PyValueError::new_err("the model has no tokenizer: give ids instead of a text");
        self.model.tokenizer().ok_or_else(missing)
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
        *data = given.to_vec()?;
        return Ok(());
    }
    let numpy = crate::tensor::numpy(py)?;
    let result = numpy.call_method1("ascontiguousarray", (result, "float32"))?;
    let result: Bound<'_, PyArrayDyn<f32>> = result.cast_into()?;
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
fn array(py: Python<'_>, values: Values) -> PyResult<Bound<'_, PyArrayDyn<f32>>> {
    PyArray1::from_vec(py, values.data).reshape(values.shape)
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
