"""Writes the texts that `command` learns from, and the held-back texts that measure it.

A text is what somebody says to a house: which device is to change, and how. Its label is one of
nine. The words alone do not tell it: "turn on the radio, not the lamp" and "turn on the lamp, not
the radio" have the same words, as have "turn the lamp on, no, off" and "turn the lamp off, no, on".

Each device has five words, and there are ten rooms. The place of a word in its list modulo 5 is the
*class* of the word. In texts for training, a room and a device, or two devices, are of different
classes. In a held-back text they are of one class: training never has them together, yet it has
each of the words, in four fifths of all combinations.

    python grammar.py [COUNT] [SEED]      prints texts for training, after their labels
    python grammar.py --held-back         writes held-back.jsonl

The same seed gives the same texts on every machine (only `random.Random` is used).
"""

import json
import random
import re
import sys
from pathlib import Path

CLASSES = 5
HELD_BACK_SEED = 1_000_003
HELD_BACK_TEXTS = 500

DEVICES = {
    "light": "lamp light bulb lantern spotlight".split(),
    "heating": "heating heater radiator stove boiler".split(),
    "music": "music radio stereo speaker playlist".split(),
    "blinds": "blind shutter curtain shade awning".split(),
}
ROOMS = "kitchen bedroom bathroom hall office garage attic cellar nursery studio".split()
# What is to become of a device: what the label says, and the verbs.
SWITCHED = {"on": ["turn {} on", "switch {} on", "turn on {}", "switch on {}"], "off": ["turn {} off", "switch {} off", "turn off {}", "switch off {}"]}
STARTED = {"on": ["start {}"], "off": ["stop {}", "pause {}"]}
MOVED = {"open": ["open {}", "raise {}", "pull {} up"], "closed": ["close {}", "lower {}", "pull {} down"]}
OPPOSITE = {"on": "off", "off": "on", "open": "closed", "closed": "open"}
# What somebody feels, and what would help.
FEELINGS = {
    "dark": "light on",
    "gloomy": "light on",
    "cold": "heating on",
    "chilly": "heating on",
    "hot": "heating off",
    "stuffy": "heating off",
    "loud": "music off",
    "noisy": "music off",
    "quiet": "music on",
    "silent": "music on",
}
LABELS = ["nothing"] + [f"{device} {state}" for device in DEVICES for state in (MOVED if device == "blinds" else SWITCHED)]
BEFORE = ["", "", "", "please", "could you", "now", "hello house,", "hey,", "then", "okay,"]
AFTER = ["", "", "", "please", "now", "again", "for me", "thank you", "tonight"]
CORRECTIONS = [", no,", ", sorry,", ", wait,", ", I mean"]
OTHERS = "I love the way it is here|it is a nice day|how are you|good morning|thank you|what time is it|I am back|is it late".split("|")


class Text:
    """A text in the making: the words of one text are of one class if it is held back, and else of different ones."""

    def __init__(self, rng, held_back):
        self.rng, self.held_back = rng, held_back
        self.own, self.used = rng.randrange(CLASSES), set()

    def class_(self):
        if self.held_back:
            return self.own
        found = self.rng.choice([c for c in range(CLASSES) if c not in self.used])
        self.used.add(found)
        return found

    def room(self):
        return ROOMS[self.class_() + CLASSES * self.rng.randrange(len(ROOMS) // CLASSES)]

    def device(self, name):
        """The words for a device, with the room where it is or without."""
        word = DEVICES[name][self.class_()]
        where = self.rng.choice([self.room(), None])
        if not where:
            return f"the {word}"
        return self.rng.choice([f"the {word} in the {where}", f"the {where} {word}"])

    def verbs(self, device, state):
        if device == "blinds":
            return MOVED[state]
        return SWITCHED[state] + (STARTED[state] if device == "music" else [])

    def order(self, device, state, thing):
        return self.rng.choice(self.verbs(device, state)).format(thing)


def text(rng, held_back=False):
    """A text and its label."""
    t = Text(rng, held_back)
    device = rng.choice(list(DEVICES))
    state = rng.choice(list(MOVED if device == "blinds" else SWITCHED))
    label = f"{device} {state}"
    # Another device that is switched in the same way.
    other = rng.choice([name for name in DEVICES if name not in (device, "blinds")])
    kind = rng.randrange(12)
    if device == "blinds" and kind in (3, 4):
        kind = 0
    if kind <= 2:
        said = t.order(device, state, t.device(device))
    elif kind == 3:  # one device, and not the other
        verb = rng.choice(SWITCHED[state])
        this, that = t.device(device), t.device(other)
        said = rng.choice([f"{verb.format(this)}, not {that}", f"not {that}, {verb.format(this)}", f"leave {that}, {verb.format(this)}"])
    elif kind == 4:  # the other device, and then this one
        verb, correction = rng.choice(SWITCHED[state]), rng.choice(CORRECTIONS)
        this, that = t.device(device), t.device(other)
        said = f"{verb.format(that)}{correction} {this}"
    elif kind == 5:  # the other state, and then this one
        thing, correction = t.device(device), rng.choice(CORRECTIONS)
        first = t.order(device, OPPOSITE[state], thing)
        again = rng.choice(t.verbs(device, state)).format("it")
        said = f"{first}{correction} {rng.choice([again, state if device != 'blinds' else again])}"
    elif kind == 6:  # a part of it is forbidden
        this = t.order(device, state, t.device(device))
        wrong = t.order(other, rng.choice(["on", "off"]), t.device(other))
        said = rng.choice([f"do not {wrong} but {this}", f"{this} but do not {wrong}"])
    elif kind == 7:  # all of it is forbidden
        said = rng.choice(["do not {}", "never {}", "you need not {}"]).format(t.order(device, state, t.device(device)))
        label = "nothing"
    elif kind == 8:  # how it is
        thing, was = t.device(device), rng.choice(["is", "was"])
        said = rng.choice([f"{thing} {was} {state}", f"{was} {thing} {state}?", f"I like {thing}", f"leave {thing} as it is"])
        label = "nothing"
    elif kind in (9, 10):  # what somebody feels
        feeling = rng.choice(list(FEELINGS))
        where = rng.choice(["here", f"in the {t.room()}"])
        not_ = rng.random() < 0.25
        said = f"it is {'not ' if not_ else ''}{rng.choice(['too ', 'so ', ''])}{feeling} {where}"
        label = "nothing" if not_ else FEELINGS[feeling]
    else:
        said, label = rng.choice(OTHERS), "nothing"
    said = f"{rng.choice(BEFORE)} {said} {rng.choice(AFTER)}".strip()
    return re.sub(r" +", " ", said) + rng.choice(["", "", ".", "!"]), label


def words(text):
    """The tokens of a text: words in lower-case letters, and marks."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def vocabulary():
    """All tokens; the first three are special."""
    rng, found = random.Random(0), set()
    for _ in range(20_000):
        found.update(words(text(rng)[0]))
    return ["[PAD]", "[UNK]", "[HOUSE]"] + sorted(found)


def held_back():
    """Texts that training does not have, none twice, as many of each kind as come by chance."""
    rng, found = random.Random(HELD_BACK_SEED), {}
    while len(found) < HELD_BACK_TEXTS:
        said, label = text(rng, held_back=True)
        rooms = [word for word in words(said) if word in ROOMS]
        devices = [word for word in words(said) if any(word in all for all in DEVICES.values())]
        if len(rooms) + len(devices) >= 2:  # else nothing in it is new
            found[said] = label
    return [{"text": said, "label": label} for said, label in found.items()]


if __name__ == "__main__":
    if sys.argv[1:] == ["--held-back"]:
        lines = [json.dumps(line) + "\n" for line in held_back()]
        (Path(__file__).parent / "held-back.jsonl").write_text("".join(lines))
    else:
        count, seed = (int(x) for x in (sys.argv[1:] + ["20", "0"][len(sys.argv) - 1 :]))
        rng = random.Random(seed)
        for _ in range(count):
            said, label = text(rng)
            print(f"{label:14} {said}")
