"""Text made of ordinary words, the same for the same seed.

A middle dot marks where a word may be broken at the end of a line.
"""

from __future__ import annotations

import random

SMALL = "the of and to in a is that for it as with on by at from this are or an be which was not can".split()
LONG = """
meas·ure·ment ma·te·ri·al in·sti·tu·tion re·search en·vi·ron·ment con·trol·ler pro·ces·sor de·vel·op·ment
or·ga·ni·za·tion com·mit·tee tem·per·a·ture pro·duc·tion man·age·ment gov·ern·ment agree·ment de·part·ment
in·for·ma·tion trans·port·a·tion ag·ri·cul·ture pop·u·la·tion ed·u·ca·tion con·struc·tion in·dus·tri·al
pre·vi·ous·ly ap·prox·i·mate·ly par·tic·u·lar·ly con·sid·er·a·ble sub·se·quent in·de·pen·dent ad·di·tion·al
per·for·mance dif·fer·ence ref·er·ence ex·pe·ri·ence con·fi·dence ev·i·dence as·sess·ment in·vest·ment
""".split()
SHORT = """
water river house table number result method paper value group level state model point order light sound field
metal stone paint engine garden market school winter summer region report sample season signal surface system
study shows finds gives holds keeps makes needs moves takes works rises falls grows begins follows remains
large small early later local whole clear dark deep high low new old open plain short strong warm cold dry
bridge canal valley forest harbour island coast farm mill tower road rail train wheel valve pump pipe cable
""".split()
COMPOUNDS = "out-of-lab well-known long-term state-of-the-art one-sided self-adjusting high-pressure cross-border".split()
ACCENTED = """
Neuchâtel café naïve Zürich façade señor Málaga Göteborg Ångström Besançon Curaçao résumé São Córdoba Köln élève
Genève Poznań Dvořák Łódź Šibenik Čapek Malmö Tromsø Århus piñata crème brûlée
""".split()
# Those that the base-14 fonts can write.
LATIN_1 = [word for word in ACCENTED if all(ord(letter) < 256 for letter in word)]
NAMES = "Adams Brown Clark Davis Evans Foster Green Harris Irving Jones Keller Lewis Moore Norton Owens Parker".split()


class Words:
    def __init__(self, seed: str, extra: list[str] | None = None):
        self.random = random.Random(seed)
        self.extra = extra or []

    def word(self) -> str:
        draw = self.random.random()
        if self.extra and draw > 0.93:
            return self.random.choice(self.extra)
        return self.random.choice(SMALL if draw < 0.35 else LONG if draw < 0.6 else SHORT)

    def sentence(self) -> str:
        words = [self.word() for _ in range(self.random.randint(7, 16))]
        if self.random.random() < 0.3:
            words[len(words) // 2] += ","
        words[0] = words[0][0].upper() + words[0][1:]
        return " ".join(words) + "."

    def paragraph(self, sentences: int = 5) -> str:
        return " ".join(self.sentence() for _ in range(sentences))

    def title(self, count: int = 4) -> str:
        """A heading: long and short words, no two of the same document alike."""
        chosen = [self.random.choice(LONG if index % 2 else SHORT).replace("·", "") for index in range(count)]
        return " ".join(chosen).capitalize()

    def number(self, digits: int = 4) -> str:
        return f"{self.random.randint(1, 10**digits):,}"

    def decimal(self) -> str:
        return f"{self.random.uniform(0, 100):.2f}"

    def label(self) -> str:
        return self.random.choice(SHORT).capitalize()

    def name(self) -> str:
        return self.random.choice(NAMES)


def unmarked(text: str) -> str:
    """Without the marks of possible breaks."""
    return text.replace("·", "")
