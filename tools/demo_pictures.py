"""Draws the pictures of the demo: a simple still life for each kind of product, in colors that follow from its name.

`python -m tools.demo_pictures` writes them to `src/stoa/demo/pictures`, one file for each image of the catalogs.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

SIZE = 400
_SCALE = 2  # drawn larger, so that edges are smooth
_DEMO = Path(__file__).parents[1] / "src/stoa/demo"
_CATALOGS = ("catalog.json", "second.json")
Color = tuple[int, int, int]
Draw = ImageDraw.ImageDraw

# The wall and the table, and the object with its shade.
_ROOMS: tuple[tuple[Color, Color], ...] = (
    ((238, 230, 216), (214, 196, 170)),
    ((224, 232, 228), (186, 202, 192)),
    ((232, 224, 232), (202, 188, 204)),
    ((240, 226, 214), (222, 190, 164)),
    ((222, 230, 238), (180, 196, 212)),
)
_OBJECTS: tuple[tuple[Color, Color], ...] = (
    ((176, 96, 70), (140, 72, 52)),
    ((84, 112, 92), (60, 84, 68)),
    ((62, 88, 120), (44, 64, 92)),
    ((196, 152, 84), (160, 120, 60)),
    ((120, 84, 108), (92, 62, 84)),
    ((90, 90, 88), (66, 66, 64)),
)


def _vessel(draw: Draw, body: Color, shade: Color) -> None:
    draw.ellipse((520, 380, 680, 560), outline=shade, width=34)
    draw.rounded_rectangle((250, 300, 560, 640), 70, body)
    draw.rounded_rectangle((430, 300, 560, 640), 70, shade)
    draw.ellipse((250, 270, 560, 340), shade)
    draw.ellipse((274, 282, 536, 330), (52, 40, 34))


def _bowl(draw: Draw, body: Color, shade: Color) -> None:
    draw.pieslice((180, 140, 620, 640), 0, 180, body)
    draw.pieslice((180, 140, 620, 640), 0, 62, shade)
    draw.ellipse((180, 352, 620, 428), shade)
    draw.ellipse((206, 364, 594, 416), (246, 240, 230))
    draw.rounded_rectangle((330, 622, 470, 656), 12, shade)


def _garment(draw: Draw, body: Color, shade: Color) -> None:
    draw.arc((360, 130, 440, 210), 150, 20, fill=(70, 60, 50), width=8)
    draw.polygon([(400, 200), (220, 280), (160, 420), (230, 460), (270, 390), (270, 660), (530, 660), (530, 390),
                  (570, 460), (640, 420), (580, 280)], body)  # fmt: skip
    draw.polygon(
        [(400, 200), (580, 280), (640, 420), (570, 460), (530, 390), (530, 660), (420, 660), (420, 240)], shade
    )
    draw.pieslice((350, 190, 450, 270), 0, 180, (248, 244, 236))
    for y in (330, 400, 470, 540):
        draw.ellipse((393, y, 407, y + 14), (248, 244, 236))


def _folded(draw: Draw, body: Color, shade: Color) -> None:
    for n, color in enumerate((shade, body, shade, body)):
        top = 590 - 74 * n
        draw.rounded_rectangle((190 + 12 * n, top, 610 - 12 * n, top + 66), 30, color)


def _book(draw: Draw, body: Color, shade: Color) -> None:
    draw.rounded_rectangle((280, 230, 560, 650), 16, (250, 246, 238))
    draw.rounded_rectangle((260, 220, 540, 640), 16, body)
    draw.rectangle((260, 236, 300, 624), shade)
    draw.rounded_rectangle((350, 310, 490, 390), 8, (250, 246, 238))
    draw.rectangle((500, 220, 514, 640), (214, 180, 110))


def _candle(draw: Draw, body: Color, shade: Color) -> None:
    draw.rounded_rectangle((300, 400, 500, 640), 24, body)
    draw.rounded_rectangle((420, 400, 500, 640), 24, shade)
    draw.ellipse((300, 380, 500, 424), (250, 240, 220))
    draw.line((400, 400, 400, 350), fill=(60, 50, 40), width=8)
    draw.ellipse((376, 250, 424, 356), (250, 190, 80))
    draw.ellipse((388, 290, 412, 350), (255, 232, 170))


def _bar(draw: Draw, body: Color, shade: Color) -> None:
    draw.rounded_rectangle((200, 440, 600, 640), 60, shade)
    draw.rounded_rectangle((200, 410, 600, 590), 60, body)
    draw.rounded_rectangle((270, 460, 530, 540), 34, outline=shade, width=10)


def _brush(draw: Draw, body: Color, shade: Color) -> None:
    for x in range(226, 580, 22):
        draw.rectangle((x, 500, x + 12, 640), (238, 226, 198))
    draw.rounded_rectangle((190, 400, 610, 520), 54, body)
    draw.rounded_rectangle((190, 470, 610, 520), 24, shade)


def _lamp(draw: Draw, body: Color, shade: Color) -> None:
    draw.ellipse((300, 616, 500, 660), shade)
    draw.rectangle((392, 380, 408, 636), shade)
    draw.polygon([(320, 230), (480, 230), (560, 400), (240, 400)], body)
    draw.ellipse((240, 380, 560, 420), (255, 236, 180))


def _board(draw: Draw, body: Color, shade: Color) -> None:
    draw.rounded_rectangle((230, 250, 530, 650), 60, body)
    draw.rounded_rectangle((340, 150, 420, 300), 36, body)
    draw.ellipse((364, 172, 396, 204), (238, 230, 216))
    for x in (290, 350, 410, 470):
        draw.arc((x - 40, 280, x + 30, 620), 300, 60, fill=shade, width=5)


def _tool(draw: Draw, body: Color, shade: Color) -> None:
    draw.polygon([(300, 180), (360, 170), (470, 470), (430, 490)], (208, 212, 214))
    draw.polygon([(300, 180), (330, 176), (450, 480), (430, 490)], (176, 182, 186))
    draw.polygon([(430, 490), (470, 470), (560, 630), (520, 654)], body)
    draw.line((450, 500, 536, 640), fill=shade, width=8)


def _frame(draw: Draw, body: Color, shade: Color) -> None:
    draw.rounded_rectangle((250, 200, 550, 620), 14, body)
    draw.rectangle((284, 234, 516, 586), (248, 244, 236))
    draw.ellipse((340, 300, 460, 420), shade)
    draw.polygon([(284, 586), (380, 440), (450, 520), (490, 470), (516, 510), (516, 586)], body)


def _vase(draw: Draw, body: Color, shade: Color) -> None:
    draw.line((400, 360, 380, 170), fill=(84, 112, 80), width=8)
    for x, y in ((350, 150), (390, 130), (372, 186), (410, 176)):
        draw.ellipse((x - 26, y - 26, x + 26, y + 26), (226, 150, 140))
    draw.polygon([(370, 350), (430, 350), (440, 420), (520, 540), (480, 650), (320, 650), (280, 540), (360, 420)], body)
    draw.polygon([(400, 350), (430, 350), (440, 420), (520, 540), (480, 650), (410, 650)], shade)


# By the tags of a product, then by its category.
_SHAPES: Mapping[str, Callable[[Draw, Color, Color], None]] = {
    "mug": _vessel, "kettle": _vessel, "coffee": _vessel, "watering-can": _vessel, "mill": _vase, "salt": _bowl,
    "skillet": _bowl, "mortar": _bowl, "basket": _bowl, "matcha": _bowl, "knife": _tool, "jar": _vase, "carafe": _vase,
    "ink": _vase, "soap": _bar, "balm": _vessel, "brush": _brush, "apron": _garment, "towel": _folded, "tea-towel": _folded, "mirror": _frame,
    "Clothing/Accessories": _folded, "Clothing": _garment, "Home/Tableware": _bowl, "Home/Bedding": _folded,
    "Home/Bath": _folded, "Home/Textiles": _folded, "Home/Lighting": _lamp, "Home/Candles": _candle, "Home/Decor": _frame,
    "Home/Kitchen": _board, "Home": _vessel, "Paper": _book, "Stationery/Pens": _tool, "Stationery/Brushes": _tool,
    "Stationery": _book, "Garden/Tools": _tool, "Garden": _vase, "Body": _bar, "Gifts": _book, "Ceramics/Tea": _vessel,
    "Ceramics/Vases": _vase, "Ceramics": _bowl,
}  # fmt: skip


def drawn(name: str, kinds: Iterable[str]) -> Image.Image:
    """A picture: the same name and kinds give the same one."""
    digest = hashlib.sha256(name.encode()).digest()
    (wall, table), (body, shade) = _ROOMS[digest[0] % len(_ROOMS)], _OBJECTS[digest[1] % len(_OBJECTS)]
    side = SIZE * _SCALE
    picture = Image.new("RGB", (side, side), wall)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 560, side, side), table)
    draw.ellipse((200, 616, 640, 690), (int(table[0] * 0.86), int(table[1] * 0.86), int(table[2] * 0.86)))
    picture = picture.filter(ImageFilter.BoxBlur(10))
    shape = next((_SHAPES[kind] for kind in kinds if kind in _SHAPES), _vase)
    shape(ImageDraw.Draw(picture), body, shade)
    return picture.resize((SIZE, SIZE), Image.Resampling.LANCZOS)  # pyright: ignore[reportUnknownMemberType]


def main() -> None:
    folder = _DEMO / "pictures"
    folder.mkdir(exist_ok=True)
    for catalog in _CATALOGS:
        for product in json.loads((_DEMO / catalog).read_text(encoding="utf-8"))["products"]:
            category: str = product["category"]
            for image in product.get("images", []):
                name = Path(image["url"]).stem
                kinds = (*product["tags"], category, category.partition("/")[0])
                drawn(name, kinds).save(folder / f"{name}.webp", "WEBP", quality=80, method=6)


if __name__ == "__main__":
    main()
