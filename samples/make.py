#!/usr/bin/env python3
"""Makes harbour-report-2026.pdf and encrypted.pdf (password: harbour), the same every time.

    python3 -m venv venv && venv/bin/pip install pymupdf && venv/bin/python samples/make.py
"""

import math
import random
import struct
import zlib
from pathlib import Path

import pymupdf

HERE = Path(__file__).parent
WIDTH, HEIGHT = 595, 842  # A4
LEFT, RIGHT, TOP, BOTTOM = 64, WIDTH - 64, 72, HEIGHT - 64
INK, QUIET, SEA, SUN = (0.13, 0.16, 0.2), (0.45, 0.5, 0.55), (0.1, 0.36, 0.5), (0.88, 0.5, 0.2)
BODY, BOLD, SERIF = "helv", "hebo", "tiro"

random.seed(2026)
document = pymupdf.open()


def new_page(title=None, running=True):
    page = document.new_page(width=WIDTH, height=HEIGHT)
    if running:
        page.insert_text((LEFT, 44), "Harbour report 2026", fontname=BODY, fontsize=8, color=QUIET)
        page.insert_text((RIGHT - 12, HEIGHT - 36), str(page.number + 1), fontname=BODY, fontsize=9, color=QUIET)
        page.draw_line((LEFT, 52), (RIGHT, 52), color=QUIET, width=0.4)
    if title:
        page.insert_text((LEFT, TOP + 22), title, fontname=BOLD, fontsize=20, color=SEA)
    return page


def flow(page, text, box, size=10.5, font=SERIF, color=INK, lineheight=1.35):
    left = page.insert_textbox(pymupdf.Rect(box), text, fontname=font, fontsize=size, color=color,
                               lineheight=lineheight, align=pymupdf.TEXT_ALIGN_LEFT)
    assert left >= 0, f"page {page.number + 1}: the text is {-left:.0f} points too long"


def caption(page, number, text, y):
    page.insert_text((LEFT, y), f"Figure {number}.", fontname=BOLD, fontsize=9, color=INK)
    page.insert_text((LEFT + 46, y), text, fontname=BODY, fontsize=9, color=INK)


def png(width, height, rows, channels=3):
    """A PNG with nothing but the standard library."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    raw = b"".join(b"\0" + row for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")


def harbour_at_dawn(width=560, height=330):
    """Sky, sun, water and cranes: a picture that no text layer describes."""
    horizon, sun = int(height * 0.58), (int(width * 0.68), int(height * 0.5))
    rows = []
    for y in range(height):
        row = bytearray()
        for x in range(width):
            grain = random.gauss(0, 3)
            if y < horizon:
                t = y / horizon
                r, g, b = 60 + 175 * t, 85 + 85 * t, 130 - 10 * t
                glow = math.exp(-math.hypot(x - sun[0], (y - sun[1]) * 1.4) / 70)
                r, g, b = r + 150 * glow, g + 110 * glow, b + 30 * glow
                crane = [(90, 40, 3), (150, 60, 3), (210, 50, 3)]
                for cx, top, w in crane:
                    mast = abs(x - cx) <= w and y > top + 40
                    jib = abs(y - (top + 42 + (x - cx) * -0.25)) <= 2 and cx - 24 <= x <= cx + 52
                    stay = abs((y - top) - abs(x - cx) * 1.3) <= 1.2 and y < top + 50
                    if mast or jib or stay:
                        r, g, b = 28, 32, 44
                hull = 330 <= x <= 520 and horizon - 22 <= y and x - 330 > (horizon - y) * -0.5
                boxes = 350 <= x <= 490 and horizon - 52 <= y < horizon - 22
                if hull:
                    r, g, b = 40, 44, 60
                elif boxes:
                    shade = ((x - 350) // 20 * 7 + (y // 10) * 5) % 3
                    r, g, b = [(120, 60, 50), (60, 80, 100), (130, 110, 70)][shade]
            else:
                t = (y - horizon) / (height - horizon)
                wave = 12 * math.sin(x / 7 + y * y / 90) * (0.3 + t)
                r, g, b = 120 - 80 * t + wave, 110 - 60 * t + wave, 120 - 40 * t + wave
                shine = math.exp(-abs(x - sun[0]) / (18 + 60 * t))
                r, g = r + 120 * shine, g + 75 * shine
            row += bytes(max(0, min(255, int(value + grain))) for value in (r, g, b))
        rows.append(bytes(row))
    return pymupdf.Pixmap(png(width, height, rows)).tobytes("jpeg", jpg_quality=72)


def scan(draw):
    """A page as a copier makes it: grey, slightly turned, without a text layer."""
    paper = pymupdf.open()
    draw(paper.new_page(width=WIDTH, height=HEIGHT))
    turned = pymupdf.Matrix(92 / 72, 92 / 72).prerotate(0.7)
    picture = paper[0].get_pixmap(matrix=turned, colorspace=pymupdf.csGRAY)
    width, height, samples = picture.width, picture.height, picture.samples
    rows = []
    for y in range(height):
        line = samples[y * picture.stride:y * picture.stride + width]
        shade = 12 * (y / height)
        rows.append(bytes(max(0, min(255, int(value * 0.93 - shade + random.gauss(0, 2.2)))) for value in line))
    return pymupdf.Pixmap(png(width, height, rows, channels=1)).tobytes("jpeg", jpg_quality=38)


# 1: cover
page = new_page(running=False)
page.insert_text((LEFT, 250), "Harbour report", fontname=BOLD, fontsize=38, color=SEA)
page.insert_text((LEFT, 292), "2026", fontname=BOLD, fontsize=38, color=SUN)
page.draw_line((LEFT, 316), (RIGHT, 316), color=SEA, width=1.2)
flow(page, "Traffic, water, people and plans of the port of Lindholm,\nfrom November 2025 to October 2026.",
     (LEFT, 332, RIGHT, 392), size=12)
page.insert_text((LEFT, 700), "Office of the harbour master", fontname=BOLD, fontsize=10, color=INK)
page.insert_text((LEFT, 716), "Quay 1, Lindholm", fontname=BODY, fontsize=10, color=QUIET)

# 2: contents
page = new_page("Contents")
entries = [("The year in brief", 3), ("Traffic by quarter", 4), ("The harbour in pictures", 5), ("Cargo", 6),
           ("Water and weather", 7), ("People at the quay", 8), ("A letter from 1926", 9), ("Dredging plan", 10),
           ("Accounts", 11), ("Outlook", 12)]
for index, (title, number) in enumerate(entries):
    y = 140 + index * 30
    page.insert_text((LEFT, y), title, fontname=BODY, fontsize=12, color=INK)
    page.insert_text((RIGHT - 16, y), str(number), fontname=BODY, fontsize=12, color=SEA)
    page.draw_line((LEFT, y + 9), (RIGHT, y + 9), color=(0.85, 0.87, 0.9), width=0.5)

# 3: two columns
page = new_page("The year in brief")
first = """Two thousand one hundred and eighty ships called at Lindholm, eleven more than the year before. \
The new lock opened in April and has since passed a ship every nineteen minutes at the busiest hour, \
against twenty-six in the old one.

Not everything grew. Grain fell by a fifth after the dry spring in the hinterland, and the ferry to \
Brannholm ran without its second vessel for seven weeks. Containers made up for both: for the first \
time more than half of all cargo by weight came in boxes.

The harbour paid its own way again. Dues rose with inflation and by nothing beyond it."""
second = """Three decisions will shape the next years. The council approved shore power for quays 4 to 7, \
so that ships at berth can stop their engines. The dredging of the northern fairway was put out to \
tender in August. And the old customs house, empty since 2011, becomes the new home of the pilots.

There was one serious accident. On 9 February the tug Ragna lost a line in heavy swell and a deckhand \
was hurt. He is back at work; the inquiry's seven recommendations have been carried out, the last of \
them in September.

We thank everyone who kept the port open on each of the year's 365 days."""
middle = (LEFT + RIGHT) / 2
flow(page, first, (LEFT, 124, middle - 12, 560))
flow(page, second, (middle + 12, 124, RIGHT, 560))

# 4: vector chart
page = new_page("Traffic by quarter")
flow(page, "Ships by quarter and kind. The lock's opening in the second quarter shows in every row but the ferries'.",
     (LEFT, 112, RIGHT, 150))
base, left_axis, tall = 520, LEFT + 40, 300
values = [("Q1", 212, 168, 91), ("Q2", 266, 190, 84), ("Q3", 301, 204, 77), ("Q4", 288, 197, 102)]
kinds = [("Container", SEA), ("Bulk", SUN), ("Ferry", (0.35, 0.6, 0.45))]
for mark in range(0, 351, 50):
    y = base - mark / 350 * tall
    page.draw_line((left_axis, y), (RIGHT, y), color=(0.85, 0.87, 0.9), width=0.5)
    page.insert_text((LEFT + 8, y + 3), str(mark), fontname=BODY, fontsize=8, color=QUIET)
for index, (quarter, *ships) in enumerate(values):
    x = left_axis + 24 + index * 104
    for offset, (number, (_, color)) in enumerate(zip(ships, kinds)):
        bar = pymupdf.Rect(x + offset * 26, base - number / 350 * tall, x + offset * 26 + 22, base)
        page.draw_rect(bar, color=color, fill=color, width=0)
        page.insert_text((bar.x0 + 2, bar.y0 - 4), str(number), fontname=BODY, fontsize=7.5, color=INK)
    page.insert_text((x + 30, base + 16), quarter, fontname=BOLD, fontsize=9, color=INK)
trend = [(left_axis + 62 + i * 104, base - sum(v[1:]) / 3 / 350 * tall - 40) for i, v in enumerate(values)]
for start, end in zip(trend, trend[1:]):
    page.draw_bezier(start, (start[0] + 40, start[1]), (end[0] - 40, end[1]), end, color=INK, width=1.2)
for point in trend:
    page.draw_circle(point, 3, color=INK, fill=(1, 1, 1), width=1)
for index, (kind, color) in enumerate(kinds):
    x = left_axis + 20 + index * 100
    page.draw_rect(pymupdf.Rect(x, 556, x + 10, 566), color=color, fill=color, width=0)
    page.insert_text((x + 16, 565), kind, fontname=BODY, fontsize=9, color=INK)
caption(page, 1, "Ships per quarter, November 2025 to October 2026.", 600)

# 5: photo
page = new_page("The harbour in pictures")
page.insert_image(pymupdf.Rect(LEFT, 124, RIGHT, 124 + (RIGHT - LEFT) * 330 / 560), stream=harbour_at_dawn())
caption(page, 2, "The container quay at dawn, seen from the mole, 3 June 2026.", 424)
flow(page, "The picture was taken on the first morning with all three cranes of the container quay at work. "
           "The ship is the Halcyon, 1,740 boxes, from Rotterdam.", (LEFT, 440, RIGHT, 520))

# 6: table
page = new_page("Cargo")
flow(page, "Tonnes by kind of cargo, in thousands, and the change against the year before.", (LEFT, 112, RIGHT, 140))
table = [("Cargo", "2025", "2026", "Change"), ("Containers", "1,912", "2,204", "+15.3 %"),
         ("Grain", "640", "511", "-20.2 %"), ("Timber", "388", "402", "+3.6 %"), ("Stone and gravel", "731", "744", "+1.8 %"),
         ("Oil products", "205", "188", "-8.3 %"), ("Fish", "12", "14", "+16.7 %"), ("Other", "94", "97", "+3.2 %"),
         ("Total", "3,982", "4,160", "+4.5 %")]
columns = [LEFT, LEFT + 190, LEFT + 285, LEFT + 375]
for index, row in enumerate(table):
    y = 172 + index * 26
    strong = index in (0, len(table) - 1)
    for x, cell in zip(columns, row):
        page.insert_text((x, y), cell, fontname=BOLD if strong else BODY, fontsize=10.5, color=INK)
    page.draw_line((LEFT, y + 8), (RIGHT, y + 8), color=SEA if strong else (0.85, 0.87, 0.9), width=0.8 if strong else 0.4)

# 7: plain text
page = new_page("Water and weather")
flow(page, """The gauge at the mole stood between 41 and 318 centimetres above datum. The highest water came with the \
storm of 21 January, when the flood gates were closed for eleven hours and the ferry stayed in port for two days. \
Twenty-three days had fog in which the sight fell below 200 metres, four fewer than in an average year.

The water itself is getting better. Oxygen at the outer basin never fell below 6.1 milligrams a litre, the best \
summer since measurements began in 1978, and divers counted eelgrass at nine of twelve stations. Two small spills, \
of 40 and 15 litres of diesel, were contained within the hour.

Ice was no hindrance. On 2 February a thin sheet covered the inner basin for the first time in six years and was \
gone by noon.""", (LEFT, 116, RIGHT, 560), size=11)

# 8: plain text
page = new_page("People at the quay")
flow(page, """Four hundred and twelve people work for the harbour, and about nine thousand at it. Thirty-one joined \
us this year and nineteen left, twelve of them into retirement, among them the pilot Berta Holm after forty-one \
years and, by her own count, 14,600 ships.

The school of the port took in sixteen apprentices: six mechanics, five in logistics, three divers and two \
surveyors. All of last year's class passed.

Accidents at work fell from 38 to 29, days lost from 611 to 402. The night watch now has three people on every \
shift, as the inquiry into the accident of 9 February had asked.""", (LEFT, 116, RIGHT, 560), size=11)


# 9: scanned letter
def letter(page):
    def typed(y, text):
        page.insert_text((84, y), text, fontname="cour", fontsize=11.5, color=(0.1, 0.1, 0.12))
    typed(110, "LINDHOLM HARBOUR OFFICE")
    typed(126, "14th May 1926")
    lines = ["To the Council of the Town.", "", "Gentlemen,", "",
             "I have the honour to report that the new crane was",
             "tried on Tuesday last, and lifted eleven tons from",
             "the deck of the Aurora without complaint.", "",
             "The men ask that the bell at the quay be rung not",
             "before six. I believe this to be reasonable, and",
             "have so ordered.", "",
             "Three hundred and four vessels have entered since",
             "the first of January; none was turned away.", "",
             "Your obedient servant,", "", "", "H. Lindqvist", "Harbour Master"]
    for index, line in enumerate(lines):
        typed(176 + index * 20, line)
    page.draw_bezier((86, 508), (120, 480), (150, 530), (196, 498), color=(0.15, 0.15, 0.3), width=1.4)
    page.draw_circle((430, 560), 46, color=(0.45, 0.45, 0.48), width=2)
    page.insert_text((398, 556), "RECEIVED", fontname="cobo", fontsize=12, color=(0.45, 0.45, 0.48))
    page.insert_text((396, 574), "17 MAY 1926", fontname="cour", fontsize=10, color=(0.45, 0.45, 0.48))


page = document.new_page(width=WIDTH, height=HEIGHT)
page.insert_image(page.rect, stream=scan(letter))

# 10: a drawn plan
page = new_page("Dredging plan")
flow(page, "Depths in metres below datum. The hatched part of the fairway is dredged from 9.5 to 11 metres in 2027.",
     (LEFT, 112, RIGHT, 150))
shore = [(LEFT, 300), (150, 270), (230, 300), (300, 250), (390, 262), (470, 220), (RIGHT, 236)]
for lift, shade in [(0, 0.93), (60, 0.86), (130, 0.78), (200, 0.7)]:
    outline = [pymupdf.Point(x, y + lift) for x, y in shore] + [pymupdf.Point(RIGHT, 620), pymupdf.Point(LEFT, 620)]
    page.draw_polyline(outline, color=SEA, fill=(shade - 0.12, shade - 0.02, shade + 0.04), width=0.8, closePath=True)
for x, y, depth in [(120, 330, "4.0"), (250, 350, "6.2"), (350, 330, "7.8"), (180, 420, "9.5"), (320, 430, "9.5"),
                    (460, 400, "11.0"), (140, 560, "14.3"), (300, 570, "15.1"), (450, 550, "16.0")]:
    page.insert_text((x, y), depth, fontname=BODY, fontsize=9, color=INK)
for index in range(16):
    x = 150 + index * 14
    page.draw_line((x, 452), (x + 14, 402), color=SUN, width=1)
page.draw_rect(pymupdf.Rect(150, 402, 388, 452), color=SUN, width=1.4)
page.draw_polyline([pymupdf.Point(500, 560), pymupdf.Point(510, 520), pymupdf.Point(520, 560), pymupdf.Point(510, 550)],
                   color=INK, fill=INK, closePath=True)
page.insert_text((506, 514), "N", fontname=BOLD, fontsize=11, color=INK)
caption(page, 3, "The northern fairway, surveyed in July 2026.", 646)

# 11: accounts, a table again
page = new_page("Accounts")
flow(page, "In thousands of crowns.", (LEFT, 112, RIGHT, 136))
accounts = [("Income", ""), ("Harbour dues", "48,210"), ("Rents", "12,884"), ("Pilotage", "9,302"), ("Other", "1,120"),
            ("Expenses", ""), ("Wages", "31,776"), ("Upkeep and dredging", "18,240"), ("Energy", "4,915"),
            ("Interest", "3,070"), ("Set aside for the lock", "8,500"), ("Surplus", "5,015")]
for index, (name, amount) in enumerate(accounts):
    y = 166 + index * 25
    strong = name in ("Income", "Expenses", "Surplus")
    page.insert_text((LEFT + (0 if strong else 14), y), name, fontname=BOLD if strong else BODY, fontsize=10.5, color=INK)
    page.insert_text((LEFT + 300, y), amount, fontname=BOLD if strong else BODY, fontsize=10.5, color=INK)
    page.draw_line((LEFT, y + 8), (LEFT + 350, y + 8), color=(0.85, 0.87, 0.9), width=0.4)

# 12: outlook
page = new_page("Outlook")
flow(page, """The coming year brings shore power to quays 4 and 5, the start of dredging in March and, if the weather \
allows, the hundredth regatta of the sailing club in August. We expect 2,250 ships and no miracles.

The next report will be published in November 2027.""", (LEFT, 116, RIGHT, 400), size=11)

document.set_metadata({"title": "Harbour report 2026", "author": "Office of the harbour master, Lindholm",
                       "creationDate": "D:20261101090000Z", "modDate": "D:20261101090000Z",
                       "producer": "samples/make.py", "creator": "samples/make.py"})
document.subset_fonts()
document.save(HERE / "harbour-report-2026.pdf", garbage=4, deflate=True, no_new_id=True)

locked = pymupdf.open()
page = locked.new_page(width=WIDTH, height=HEIGHT)
page.insert_text((LEFT, TOP + 22), "For the harbour master only", fontname=BOLD, fontsize=20, color=SEA)
flow(page, "The lock on the old customs house opens with the key of the pilots' room.", (LEFT, 116, RIGHT, 200), size=11)
locked.save(HERE / "encrypted.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="harbour", owner_pw="harbour",
            garbage=4, deflate=True)
