"""The words and sentences from which the texts of `english` are made.

`prompt` writes what the teacher is asked for (see texts.py), and `exercise` sentences whose last word follows from the first ones
(see train.py). `python grammar.py 3 7` prints three of each, from seed 7.
"""

import random
import sys

NAMES = """Anna Ben Clara David Emma Felix Grace Henry Ivy Jack Kate Leo Mia Noah Olivia Paul Quinn Rosa Sam Tom Uma Victor Wendy
Xavier Yara Zoe Mary John Sarah Peter Lucy Max Nina Oscar Ruby Daniel Ella George Hannah Isaac Julia Kevin Lily Mark Nora Simon Tara
Will Alice Bob Carol Fred Ada Omar Priya Chen Maria Jose Amir Fatima Kofi Aiko Lars Ingrid Pedro Sofia Ali Hana Ravi Mei""".split()
ANIMALS = """dog cat rabbit horse cow sheep goat pig duck hen fox wolf bear mouse lion tiger elephant monkey owl crow sparrow parrot
frog toad turtle snake fish whale dolphin shark crab bee ant spider butterfly deer squirrel hedgehog donkey camel penguin eagle goose
swan otter beaver bat snail lizard kitten puppy pony lamb""".split()


def words(text):
    return [word.strip() for word in text.replace("\n", " ").split("|")]


OBJECTS = words("""hat|ball|book|key|lamp|apple|cup|box|bag|coat|shoe|spoon|clock|chair|table|door|window|bed|bike|boat|kite|drum|ring
|rope|stone|letter|map|basket|bottle|candle|mirror|camera|phone|radio|umbrella|ticket|coin|cake|loaf of bread|pie|cookie|carrot|tomato
|flower|tree|seed|leaf|feather|shell|star|cloud|drink|glass of water|computer|guitar|piano|pencil|painting|blanket|ladder|bucket|hammer
|scarf|glove|wallet|train ticket|birthday present|photograph|necklace|old watch|wooden box|red balloon|broken toy|treasure map
|bowl of soup|newspaper""")
PLACES = words("""the park|the beach|school|the store|the market|a farm|the forest|a small village|the city|the library|the museum
|the zoo|the river|a lake|the mountains|the station|the airport|the hospital|the kitchen|the garden|a restaurant|an office|the street
|the bridge|a castle|an island|the desert|a cave|the moon|a ship|the theater|a bakery|the bus|the classroom|grandmother's house
|the playground|a hotel|the church|a factory|the harbor""")
JOBS = words("""teacher|doctor|farmer|baker|driver|nurse|cook|painter|singer|writer|carpenter|fisherman|pilot|police officer|firefighter
|engineer|scientist|shopkeeper|lawyer|judge|student|king|queen|soldier|captain|gardener|tailor|musician|reporter|mayor|librarian
|programmer|mechanic|dentist|detective""")
THINGS = words("""rain|snow|the sun|the moon|the wind|a volcano|an earthquake|the ocean|electricity|a magnet|gravity|sleep|a dream
|the heart|the brain|bones|food|sugar|salt|bread|milk|cheese|coffee|tea|music|a song|a book|money|a bank|a computer|the internet|a robot
|a car|a train|an airplane|a bicycle|a bridge|a house|a city|a map|time|a year|spring|summer|autumn|winter|a farm|a forest|a river|a tree
|a flower|a seed|bees|birds|fish|whales|dinosaurs|the stars|a planet|light|color|sound|heat|ice|fire|water|glass|paper|iron|gold|wood
|cotton|a law|a vote|a school|a language|a word|a number|zero|a triangle|a circle|a game|chess|football|swimming|running|a friend
|a family|a secret|a promise|fear|anger|joy|kindness|courage|patience|history|science|art|a museum|medicine|a cold|a vaccine|a tooth
|the eye|the ear""")
ACTS = words("""bake bread|make tea|cook rice|wash the dishes|clean a room|plant a seed|water the flowers|ride a bike|swim|read a map
|write a letter|send an email|buy a ticket|save money|learn a language|play the piano|draw a face|paint a wall|fix a chair
|change a light bulb|pack a bag|catch a train|cross the street|walk a dog|feed a cat|make a friend|say sorry|tell a joke|tell a story
|take a photo|build a fire|put up a tent|make a sandwich|boil an egg|cut an onion|brush your teeth|fall asleep|wake up early
|prepare for a test|give a talk|find a job|choose a book|wrap a present|plan a party|set the table|sew a button|wash clothes
|stay healthy|keep warm in winter|keep cool in summer""")
MOODS = "happy sad funny exciting quiet surprising scary kind strange hopeful".split()
QUALITIES = "red blue green yellow white black small big old new round wooden soft heavy".split()
WEATHER = "rainy sunny cold windy warm busy quiet snowy".split()
STYLES = ["", " Use simple words.", " Use short sentences.", " Write one paragraph.", " Write about five sentences."]


def prompt(rng):
    """A task for the teacher."""
    name, animal, thing = (lambda of=of: rng.choice(of) for of in (NAMES, ANIMALS, THINGS))
    object_, place, job = (lambda of=of: rng.choice(of) for of in (OBJECTS, PLACES, JOBS))
    tasks = [
        (12, lambda: f"Write a short story about a {animal()} and a {animal()} at {place()}."),
        (14, lambda: f"Write a {rng.choice(MOODS)} short story about {name()} and {name()}. They go to {place()} and find a {object_()}."),
        (10, lambda: f"Write a short story in which {name()} gives a {object_()} to {name()} at {place()}."),
        (8, lambda: f"Write a short story about a {job()} who loses a {object_()}."),
        (6, lambda: f"Tell me about a day in the life of a {job()}."),
        (12, lambda: f"Explain in simple words what {thing()} is."),
        (5, lambda: f"Why do people like {thing()}?"),
        (8, lambda: f"Describe how to {rng.choice(ACTS)}."),
        (7, lambda: f"Describe {place()} on a {rng.choice(WEATHER)} {rng.choice(['morning', 'evening', 'day', 'night'])}."),
        (7, lambda: f"Write a short conversation between {name()} and {name()} about {thing()}."),
        (4, lambda: f"Write a short letter from {name()} to {name()} about {rng.choice([thing, object_, place])()}."),
        (4, lambda: f"Write a short news report about a {job()} and a {object_()} in {place()}."),
        (3, lambda: f"Compare {thing()} and {thing()} in a few sentences."),
    ]
    task = rng.choices([task for _, task in tasks], [weight for weight, _ in tasks])[0]
    return task() + rng.choice(STYLES)


def gift(rng):
    """Who gave what to whom. Either of the two may be the giver."""
    a, b = rng.sample(NAMES, 2)
    giver, other = rng.choice([(a, b), (b, a)])
    thing, article = rng.choice(OBJECTS), rng.choice(["a", "the"])
    place = rng.choice([*PLACES, "the store", "the shop", "the party", "work", "school"])
    before = [
        f"When {a} and {b} went to {place},", f"{a} and {b} went to {place}.", f"{a} and {b} were at {place}.",
        f"After {a} and {b} came home from {place},", f"Then, {a} and {b} had a long talk at {place}.", f"{a} met {b} at {place}.",
        f"Once {a} and {b} were friends.", f"While {a} and {b} were walking to {place},",
    ]
    verb = rng.choice(["gave", "handed", "passed", "showed", "brought", "sold", "sent"])
    then = [
        f"{giver} {verb} {article} {thing} to {other}.", f"{giver} had {article} {thing}. {giver} {verb} the {thing} to {other}.",
        f"{giver} {verb} {article} {thing} to {other}, and {other} thanked {giver}.", f"{giver} wanted to give {article} {thing} to {other}.",
        f"{giver} decided to give the {thing} to {other}.", f"{giver} said to {other},",
    ]
    return f"{rng.choice(before)} {rng.choice(then)}"


def second_time(rng):
    """A phrase that comes twice, or a word that an earlier one decides."""
    a, b = rng.sample(NAMES, 2)
    x, y = rng.sample(OBJECTS, 2)
    place = rng.choice(PLACES)
    hunter, hunted = rng.sample(ANIMALS, 2)
    c, d = rng.sample(QUALITIES, 2)
    return rng.choice([
        f"When {a} and {b} went to {place}, {a} gave a {x} to {b}.", f"After {a} and {b} came back from {place}, {b} handed the {x} to {a}.",
        f"{a} and {b} were at {place}. {a} had a {x}. {a} gave the {x} to {b}.", f"{a} saw the {c} {x}. {a} found the {c} {x}.",
        f"{a} has a {c} {x} and a {d} {y}. The {x} is {c}, and the {y} is {d}.",
        f"The {hunter} chased the {hunted}, and the {hunted} ran away from the {hunter}.",
        f"{a} put the {x} in {place} and the {y} on the table. Later {b} found the {y} on the table.",
        f"The {x} did not fit into the bag because it was too big. The bag was too small for the {x}.",
        f"{a} asked {b} for the {x}, but {b} did not have the {x}.",
        f"My name is {a} and my friend is {b}. My friend {b} likes me, {a}.",
    ])


def exercise(rng):
    """One to three such sentences."""
    return " ".join(rng.choice([gift, second_time])(rng) for _ in range(rng.randint(1, 3)))


if __name__ == "__main__":
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else None)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        print(prompt(rng))
        print(exercise(rng))
