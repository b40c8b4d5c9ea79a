//! The window beside a worker that shares no memory with it, as in a browser: questions and answers are bytes.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::heads::{AttentionSource, OpenAttention};
use crate::host::{Host, Replies, Reply, Work};
use crate::model::{Listed, ModelState, View};
use crate::{Advance, Background, Begun, Message, Room, Session, Tell};
use egui::Context;
use regard_bundled::STORY;
use regard_models::{Change, Which};

use super::TestHost;
use super::driver::{Window, app, click, open_with, outcome, says, session_of};
use super::model::{numbers, open_head, type_text};

/// A host whose worker is a thread with a background of its own.
struct WorkerHost(Mutex<Sender<(Message, Replies)>>);

impl WorkerHost {
    fn new() -> Self {
        let (sender, questions) = channel();
        std::thread::spawn(move || answer(&questions));
        Self(Mutex::new(sender))
    }
}

/// Does the steps of all questions in turn.
fn answer(questions: &Receiver<(Message, Replies)>) {
    let background = Background::new(Arc::new(TestHost::DEFAULT));
    let mut begun: VecDeque<(Begun, Arc<Mutex<Replies>>)> = VecDeque::new();
    loop {
        let next = if begun.is_empty() { questions.recv().ok() } else { questions.try_recv().ok() };
        if let Some((question, replies)) = next {
            begun.push_back((
                crate::begin(&background, question).unwrap(),
                Arc::new(Mutex::new(replies)),
            ));
        }
        let Some((mut work, replies)) = begun.pop_front() else { return };
        let theirs = Arc::clone(&replies);
        let tell: Tell = Arc::new(move |part| theirs.lock().unwrap()(Reply::Progress(part)));
        let reply = match work(&tell) {
            Ok(Advance::More) => Reply::Progress(0.5),
            Ok(Advance::Shown(message)) => Reply::Shown(message),
            Ok(Advance::Done(message)) => Reply::Done(Ok(message)),
            Err(message) => Reply::Done(Err(message)),
        };
        let is_last = matches!(reply, Reply::Done(_));
        let is_wanted = replies.lock().unwrap()(reply).is_continue();
        if !is_last && is_wanted {
            begun.push_back((work, replies));
        }
    }
}

impl Host for WorkerHost {
    fn has_worker(&self) -> bool {
        true
    }

    fn ask_worker(&self, question: Message, replies: Replies) {
        self.0.lock().unwrap().send((question, replies)).unwrap();
    }

    fn spawn(&self, name: &str, work: Work) -> io::Result<()> {
        assert!(["session", "file", "cache"].contains(&name), "{name} would stop the page");
        TestHost::DEFAULT.spawn(name, work)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        TestHost::DEFAULT.write(path, bytes)
    }
}

/// A session in a window with a worker, and in one with threads.
fn both(session: &Session) -> [Window; 2] {
    let hosts: [Arc<dyn Host>; 2] = [Arc::new(WorkerHost::new()), Arc::new(TestHost::DEFAULT)];
    hosts.map(|host| open_with(host, session.clone(), [1400.0, 1000.0]))
}

/// The results of the model room, as text.
fn computed(window: &Window) -> String {
    let model = app(window).model();
    let outcome = model.outcome().unwrap();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        model.error(),
        outcome.tokens(),
        outcome.next(),
        outcome.next_changed(),
        outcome.next_second(),
        outcome.moved(Which::Only),
        model.next(),
        model.ablation(Which::Only),
        model.lens.value().map(|lens| &lens.rows),
        model.attributed.value().map(|parts| &parts.attribution),
        model.patches.value().map(|effects| &effects.map.numbers),
    )
}

#[test]
fn a_model_runs_in_a_worker_as_it_does_in_threads() {
    let head = "1.2".parse().unwrap();
    let changes = vec![Listed { change: Change::Temperature { head, temperature: 0.5 }, on: true }];
    let text = "Mia gave Tom the ball. Tom gave the ball to".to_owned();
    let second = Some("Mia gave Tom the ball. Mia gave the ball to".to_owned());
    for view in [View::Attention, View::Lens, View::Attribution, View::Patches] {
        let (changes, second, text) = (changes.clone(), second.clone(), text.clone());
        let model = ModelState { text, changes, second, view, ..ModelState::of(STORY) };
        let session = Session { room: Room::Stage, model, ..Session::default() };
        let [worker, threads] = both(&session);
        assert_eq!(computed(&worker), computed(&threads), "{view:?}");
        assert_eq!(app(&worker).session.model.record, app(&threads).session.model.record);
    }
}

#[test]
fn heads_and_texts_come_from_the_worker() {
    let session = session_of(Room::Stage);
    let found = both(&session).map(|mut window| {
        open_head(&mut window, 1, 2);
        let before = numbers(&window);
        type_text(&mut window, "Tom had a red ball. Mia");
        click(&mut window, "Add next word");
        (before, app(&window).session.model.text.clone())
    });
    assert!(found[0].1.len() > "Tom had a red ball. Mia".len());
    let [worker, threads] = found;
    assert_eq!(worker, threads);
}

#[test]
fn files_and_the_laboratory_come_from_the_worker() {
    let [worker, threads] = both(&Session {
        room: Room::Stage,
        model: ModelState::of_file(AttentionSource::Sample),
        ..Session::default()
    });
    let [worker, threads] = [&worker, &threads].map(|window| app(window).model().file().unwrap());
    let weights = |opened: &crate::heads::OpenedHeads| -> Vec<Vec<f32>> {
        opened.maps.shape().ids().map(|id| opened.maps.head(id).to_vec()).collect()
    };
    assert_eq!(weights(worker), weights(threads));
    let measures = |opened: &crate::heads::OpenedHeads| format!("{:?}", opened.survey);
    assert_eq!(measures(worker), measures(threads));
    let [worker, threads] = both(&session_of(Room::Laboratory));
    let [worker, threads] = [&worker, &threads].map(outcome);
    assert_eq!(worker.numbers, threads.numbers);
}

#[test]
fn a_model_that_cannot_be_opened_is_told() {
    let model = ModelState::of("no/such/model");
    let [worker, threads] = both(&Session { room: Room::Stage, model, ..Session::default() });
    let [worker, threads] = [&worker, &threads].map(|window| app(window).model().error());
    assert!(worker.is_some_and(|message| message.contains("no/such/model was not opened")));
    assert_eq!(worker, threads);
}

#[test]
fn without_a_model_in_the_cache_the_room_says_which_one_to_fetch() {
    let host = Arc::new(WorkerHost::new());
    let mut window = open_with(host, session_of(Room::Stage), [1280.0, 800.0]);
    super::driver::open_menu(&mut window);
    assert!(says(&window, "The local Hugging Face cache has no model."));
    assert!(says(&window, "regard model HuggingFaceTB/SmolLM2-135M --download"));
    assert!(says(&window, "Copy the command"));
}

#[test]
fn an_answer_that_cannot_be_read_ends_the_work_with_the_reason() {
    let reason = |reply: fn(Message) -> Reply| {
        let (sender, questions) = channel();
        let background = Background::new(Arc::new(WorkerHost(Mutex::new(sender))));
        let question = OpenAttention { place: 0, source: AttentionSource::Sample };
        let once = background.ask(&Context::default(), question);
        let (_, mut replies) = questions.recv().unwrap();
        let unreadable = Message { bytes: vec![0xff], lists: Vec::new() };
        assert!(replies(reply(unreadable)).is_break() && !once.is_running());
        once.take().unwrap().err().unwrap()
    };
    let last = reason(|message| Reply::Done(Ok(message)));
    assert_eq!(reason(Reply::Shown), last);
    assert!(!last.contains("without a result"), "{last}");
}
