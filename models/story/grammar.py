"""Writes the stories that `story` learns from, and the held-back stories that measure it.

A story is about two people who go to a place and give things to each other. The grammar keeps the
state of the world (who is there, who has what), so that every sentence that follows from an
earlier one is right: who gets a thing, who has it now, who "she" is, what was sung before.

Names, places and things are numbered, and the number modulo 5 is the *class* of the word. In the
stories for training, two people who meet are of different classes, and nobody is at a place or has
a thing of their own class. A held-back story is the opposite: its two people, its place and its
things are of one class. So training never has the two names together, nor either name with the
place, nor with a thing; yet it has each of the words, in four fifths of all combinations.

    python grammar.py [COUNT] [SEED]      prints stories for training
    python grammar.py --held-back         writes held-back.jsonl

The same seed gives the same stories on every machine (only `random.Random` is used).
"""

import json
import random
import re
import sys
from pathlib import Path

CLASSES = 5
HELD_BACK_SEED = 1_000_003
HELD_BACK_STORIES = 240

# The names, places and things of each class. Mary, John, the store and the drink are of the same class. The best-known sentence
# about the indirect object (Wang et al. 2022) is therefore held back.
NAMES = [
    "Mia Tom Rosa Sam Lily".split(),
    "Anna Ben Nina Paul Jack".split(),
    "Lucy Leo Ella Finn Noah".split(),
    "Emma Max Clara Hugo Ida".split(),
    "Mary John Julia Adam Sara".split(),
]
GIRLS = "Mia Rosa Lily Anna Nina Lucy Ella Emma Clara Ida Mary Julia Sara".split()

# A place, with its preposition and two sentences about it.
PLACES = [
    {
        "park": ("in", "The grass was green.", "A dog ran on the grass."),
        "lake": ("at", "The water was still.", "Two swans swam on the water."),
        "farm": ("at", "The cows were hungry.", "A horse stood near the gate."),
        "bakery": ("in", "The bread was warm.", "A cake stood in the window."),
    },
    {
        "garden": ("in", "The roses were red.", "A bee sat on a rose."),
        "river": ("at", "The water was cold.", "A fish jumped in the water."),
        "zoo": ("at", "The lions were asleep.", "A monkey climbed up a rope."),
        "school": ("at", "The children sang.", "The windows were open."),
    },
    {
        "beach": ("at", "The sand was warm.", "The waves were high."),
        "forest": ("in", "The trees were tall.", "An owl slept in a tree."),
        "library": ("in", "It was very quiet.", "An old man sat at a table."),
        "village": ("in", "The street was narrow.", "A cat slept on a wall."),
    },
    {
        "market": ("at", "There was bread and fruit.", "A man sold fish."),
        "castle": ("in", "The walls were high.", "A flag waved in the wind."),
        "island": ("on", "The sea was all around.", "A white bird sat on a stone."),
        "kitchen": ("in", "The soup was hot.", "A mouse sat under the table."),
    },
    {
        "store": ("at", "There were many people.", "A woman sold bread."),
        "museum": ("in", "The rooms were old.", "A man looked at a picture."),
        "mountain": ("on", "The air was cold.", "There was snow on the path."),
        "station": ("at", "The train was late.", "A woman waited for the train."),
    },
]

# A thing, with adjectives for it.
COLOURS = "red blue green yellow white black".split()
THINGS = [
    {"ball": "", "lamp": "old small", "ring": "golden", "doll": "old little", "basket": "big"},
    {"book": "old thick", "kite": "big", "bell": "golden", "coat": "warm new", "flute": "old"},
    {"apple": "round sweet", "hat": "new old", "key": "golden", "shell": "round", "drum": "big"},
    {"cake": "round sweet", "boat": "little", "map": "old", "coin": "golden", "cup": "small"},
    {"drink": "cold sweet", "letter": "long", "stone": "round", "feather": "long", "box": "small"},
]
NO_COLOUR = "ring bell key coin cake drink letter map".split()

TIMES = [
    "One morning", "One day", "One evening", "On a sunny day", "On a cold day", "In summer",
    "In winter", "After lunch", "After school", "On Sunday", "On Monday", "Yesterday",
]
WEATHER = [
    "The sun was warm.", "The sky was blue.", "It was cold and windy.", "It was a quiet day.",
    "There were many clouds.", "It was a beautiful day.", "The wind was soft.",
]
FILLERS = [
    "They were happy.", "They ran and laughed.", "They played a game.", "They looked at the sky.",
    "They sat under a big tree.", "They listened to the birds.", "They told a funny story.",
    "They were a little tired.", "They played for a long time.",
]
ALONE = [
    "{x} was happy.", "{x} looked at the sky.", "{x} laughed.", "{x} was hungry.",
    "{x} sat on a stone.", "{x} told a funny story.", "{x} ran to a tree.", "{x} was tired.",
]
ABSENT = [
    "{c} stayed at home.", "{c} could not come.", "{c} was ill.", "{c} waited at home.",
    "They talked about {c}.", "They thought of {c}.", "{c} was far away.", "They missed {c}.",
]
FINDS = ["under a tree", "near a wall", "in the grass", "on the path", "behind a stone"]
KEEPS = ["in {his} bag", "in {his} pocket", "with {him}"]
ENDS = [
    "Then they went home.", "In the evening they went home.", "It was a good day.",
    "They were tired and happy.", "They walked home together.", "They were good friends.",
]
SONG_ADJECTIVES = "little big red blue green yellow white black old new golden warm cold".split()
SONG_NOUNS = (
    "moon star sun bird fish tree cat dog flower cloud river mountain house boat bell horse "
    "owl bee rose stone swan mouse"
).split()


def words(text):
    """Splits text into tokens as tokenizer.json does: words, and each punctuation mark."""
    return re.findall(r"\[UNK\]|\w+|[^\w\s]", text)


def pronouns(name):
    """The pronouns of a person, by their form for a man."""
    if name in GIRLS:
        return {"He": "She", "he": "she", "him": "her", "his": "her"}
    return {"He": "He", "he": "he", "him": "him", "his": "his"}


class Story:
    """One story: the people, the place, and the sentences so far."""

    def __init__(self, rng, held_back=False):
        self.rng = rng
        self.held_back = held_back
        self.class_a = rng.randrange(CLASSES)
        if held_back:
            self.a, self.b = rng.sample(NAMES[self.class_a], 2)
            self.class_b = self.class_a
        else:
            self.class_b = self.other_class(self.class_a)
            self.a = rng.choice(NAMES[self.class_a])
            self.b = rng.choice(NAMES[self.class_b])
        self.c = rng.choice(NAMES[self.other_class(self.class_a, self.class_b)])
        self.used = set()
        self.place, self.place_texts = self.new_place()
        self.sentences = []
        # For each giving "… to NAME": the sentence, the subject, and the word for the subject.
        self.gives = []

    def chance(self, probability):
        return self.rng.random() < probability

    def other_class(self, *classes):
        return self.rng.choice([x for x in range(CLASSES) if x not in classes])

    def class_for_both(self):
        """A class of places or things that both people may be with."""
        if self.held_back:
            return self.class_a
        return self.other_class(self.class_a, self.class_b)

    def pick(self, texts):
        """One of some texts that the story does not have yet; None if it has them all."""
        fresh = [x for x in texts if x not in self.used]
        if not fresh:
            return None
        text = self.rng.choice(fresh)
        self.used.add(text)
        return text

    def new_place(self):
        places = PLACES[self.class_for_both()]
        name = self.pick(sorted(places))
        return name, places[name]

    def new_thing(self):
        """A thing and an adjective for it."""
        things = THINGS[self.class_for_both()]
        thing = self.pick(sorted(things))
        adjectives = things[thing].split()
        if thing not in NO_COLOUR:
            adjectives += COLOURS
        return thing, self.rng.choice(adjectives)

    def tell(self, text, **names):
        if text is None:
            return
        for key, value in names.items():
            text = text.replace("{" + key + "}", value)
        self.sentences.append(text)

    def tell_of(self, text, person, **names):
        self.tell(text, **{**pronouns(person), **names, "x": person})

    # --- The parts of a story ---

    def opening(self, giver, taker):
        """Tells who is where. The first sentence may already be a giving."""
        a, b, place = self.a, self.b, self.place
        kind = self.rng.randrange(10)
        time = self.pick(TIMES)
        if kind == 0:
            self.tell(f"There were two friends, {a} and {b}. {time} they went to the {place}.")
        elif kind == 1:
            self.tell(f"{time} {a} met {b} {self.place_texts[0]} the {place}.")
        elif kind == 2:
            self.tell(f"{a} and {b} were {self.place_texts[0]} the {place}.")
        elif kind == 3:
            self.tell(f"{a} and {b} went to the {place}.")
        elif kind == 4:
            self.tell_of(f"{time} {a} and {{his}} friend {b} walked to the {place}.", a)
        elif kind == 5:
            self.tell(f"{time} {a} saw {b} {self.place_texts[0]} the {place}.")
        elif kind in (6, 7):
            thing, _ = self.new_thing()
            went = self.rng.choice(["went to", f"were {self.place_texts[0]}", "came to"])
            article = self.rng.choice(["a", "the"])
            self.give(giver, taker, thing, f"When {a} and {b} {went} the {place}, ", article)
        else:
            self.tell(f"{time} {a} and {b} went to the {place}.")

    def filler(self):
        kind = self.rng.randrange(6)
        if kind == 0:
            self.tell(self.pick(WEATHER))
        elif kind in (1, 2):
            self.tell(self.pick(self.place_texts[1:]))
        elif kind == 3:
            self.tell(self.pick(FILLERS))
        elif kind == 4:
            self.tell(self.pick(ALONE), x=self.rng.choice([self.a, self.b]))
        else:
            self.tell(self.pick(ABSENT), c=self.c)

    def introduce(self, giver, thing, adjective):
        article = "an" if adjective[0] in "aeiou" else "a"
        named = f"{article} {adjective} {thing}"
        if self.chance(0.5):
            self.tell(f"{giver} had {named}.")
        elif self.chance(0.5):
            self.tell(f"{giver} found {named} {self.rng.choice(FINDS)}.")
        else:
            self.tell_of(f"{giver} had {named} {self.rng.choice(KEEPS)}.", giver)

    def give(self, giver, taker, thing, before="", article="the", adjective="", back="", pronoun=False):
        """`giver` gives `thing`: in most cases by "gave the THING to NAME"."""
        verb = self.rng.choice(["gave"] * 4 + ["handed", "passed", "showed", "brought"])
        if back:
            verb = "gave"
        subject = giver
        if pronoun:
            subject = pronouns(giver)["He" if not before else "he"]
        named = f"{article} {adjective} {thing}" if adjective else f"{article} {thing}"
        if back or self.held_back or self.chance(0.8):
            text = f"{before}{subject} {verb} {named} {back}to {taker}."
            self.gives.append((len(self.sentences), subject))
        else:
            text = f"{before}{subject} {verb} {taker} {named}."
        self.tell(text)

    def react(self, giver, taker, thing, adjective):
        kind = self.rng.randrange(8)
        same = (giver in GIRLS) == (taker in GIRLS)
        if kind == 0:
            self.tell(f"{taker} thanked {giver}.")
        elif kind == 1:
            self.tell(f"{taker} was very happy.")
        elif kind == 2:
            self.tell(f"Now {taker} had the {thing}.")
        elif kind == 3 and thing != "drink":
            self.tell_of("{He} put it in {his} bag.", taker)
        elif kind == 4:
            named = f"{adjective} {thing}" if adjective else thing
            self.tell_of(f"{{He}} liked the {named} very much.", taker)
        elif kind == 5 and not same:
            thanks = pronouns(giver)["him"]
            self.tell_of(f"{{He}} thanked {thanks}.", taker)
        elif kind == 6:
            self.tell_of("{He} smiled.", taker)
        else:
            self.tell(f"Who had the {thing} now? {taker} had the {thing}.")

    def song(self, first, second):
        """A line that the first person sings and the second one repeats."""
        nouns = self.rng.sample(SONG_NOUNS, self.rng.randint(2, 4))
        line = []
        for noun in nouns:
            if self.chance(0.6):
                line.append(self.rng.choice(SONG_ADJECTIVES))
            line.append(noun)
        line = " ".join(line)
        self.tell(f"{first} sang: {line}. {second} sang it again: {line}.")

    def exchange(self, giver, taker):
        """A thing is shown, given, and perhaps given back."""
        thing, adjective = self.new_thing()
        introduced = self.chance(0.7)
        if introduced:
            self.introduce(giver, thing, adjective)
        if self.chance(0.25):
            self.filler()
            pronoun = False
        else:
            pronoun = introduced and self.chance(0.3)
        before = ""
        if not pronoun and self.chance(0.2):
            before = self.rng.choice(["Then ", "After that "])
        article, told = "the", ""
        if not introduced and self.chance(0.3):
            article = "a"
        elif introduced and self.chance(0.2):
            told = adjective
        self.give(giver, taker, thing, before, article, told, pronoun=pronoun)
        if self.chance(0.7):
            self.react(giver, taker, thing, adjective if introduced else "")
        if self.chance(0.3):
            later = self.rng.choice(["Then ", "Later ", "In the evening "])
            self.give(taker, giver, thing, later, back="back ")
            if self.chance(0.3):
                self.tell(f"Who had the {thing} now? {giver} had the {thing}.")

    def ending(self):
        if self.chance(0.3):
            self.tell(f"They stayed {self.place_texts[0]} the {self.place} all day.")
        self.tell(self.pick(ENDS))
        if self.chance(0.5):
            self.tell("The end.")

    def write(self):
        giver, taker = self.rng.sample([self.a, self.b], 2)
        self.opening(giver, taker)
        if self.chance(0.6):
            self.filler()
        if self.chance(0.3):
            self.filler()
        self.exchange(giver, taker)
        if self.chance(0.4):
            self.song(*self.rng.sample([self.a, self.b], 2))
        if self.chance(0.5):
            self.filler()
        if self.chance(0.6):
            if self.chance(0.7):
                giver, taker = taker, giver
            self.exchange(giver, taker)
        self.ending()
        return " ".join(self.sentences)


def story(rng, longest=94):
    """The text of a story for training, of at most `longest` tokens."""
    while True:
        text = Story(rng).write()
        if len(words(text)) <= longest:
            return text


def vocabulary():
    """Every word of the grammar, in alphabetical order, after the two special tokens."""
    rng = random.Random(0)
    found = set()
    for held_back in (False, True):
        for _ in range(4_000):
            found.update(words(Story(rng, held_back).write()))
    return ["[UNK]", "[STORY]", *sorted(found)]


def held_back(rng):
    """A held-back story, cut at a giving: the prompt ends with "to", and the answer is the taker.

    `order` is ABBA where the giver is the second of the two people who are told at first, and BABA
    where it is the first one.
    """
    while True:
        made = Story(rng, held_back=True)
        text = made.write()
        at, subject = made.gives[0]
        before = " ".join(made.sentences[:at])
        sentence = made.sentences[at]
        cut = sentence.rindex(" to ") + 4
        prompt = f"{before} {sentence[:cut]}".strip()
        answer = sentence[cut:-1]
        if len(words(text)) > 94 or made.c in words(text) and made.c not in words(prompt):
            continue
        giver = made.b if answer == made.a else made.a
        return {
            "prompt": prompt,
            "answer": answer,
            "giver": giver,
            "order": "ABBA" if giver == made.b else "BABA",
            "pronoun": subject != giver,
            "distractor": made.c in words(prompt),
            "story": text,
        }


def write_held_back(path):
    rng = random.Random(HELD_BACK_SEED)
    found, seen = [], set()
    while len(found) < HELD_BACK_STORIES:
        one = held_back(rng)
        # The same number of prompts for each order. Half of them have another name in between.
        wanted = ("ABBA", "BABA")[len(found) % 2], (len(found) // 2) % 2 == 0
        if (one["order"], one["distractor"]) == wanted and one["prompt"] not in seen:
            seen.add(one["prompt"])
            found.append(one)
    path.write_text("".join(json.dumps(one) + "\n" for one in found))


def main():
    if "--held-back" in sys.argv:
        write_held_back(Path(__file__).with_name("held-back.jsonl"))
        return
    count, seed = (int(x) for x in (sys.argv[1:] + ["3", "0"][len(sys.argv) - 1 :]))
    rng = random.Random(seed)
    for _ in range(count):
        print(story(rng) + "\n")


if __name__ == "__main__":
    main()
