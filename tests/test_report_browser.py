"""The report in a real browser: it draws, answers to mouse and keyboard, and stays alone."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from kexpfam import KernelChain, KernelDiffusion
from kexpfam.datasets import make_density
from kexpfam.report import write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("needs chromium and chromedriver on the path", allow_module_level=True)

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
SWITCHES = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --window-size=1200,900"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The address of a page about 200 rows of three columns, one of them with a hostile name."""
    banana = make_density("banana").sample(200, random_state=0)
    third = np.random.default_rng(0).standard_normal(200)
    frame = pd.DataFrame(np.column_stack([banana, third]), columns=["width", HOSTILE, "weight"])
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, data=frame, model=KernelDiffusion(n_components=32, n_levels=3))
    return path.as_uri()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for switch in [*SWITCHES.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium, page):
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    # What the browser itself did before is not the page's doing.
    chromium.get_log("performance")
    chromium.get(page)
    yield chromium
    complaints = [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"]
    assert complaints == []


def named(browser, identity):
    return browser.find_element(By.ID, identity)


def picture(browser) -> str:
    return named(browser, "pairs-plot").get_attribute("innerHTML")


def points(browser, kind: str) -> int:
    return len(browser.find_elements(By.CSS_SELECTOR, f"#pairs-plot .point-{kind}"))


def centered(browser, element) -> None:
    browser.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element
    )


def click(browser, element) -> None:
    centered(browser, element)
    element.click()


def test_nothing_is_asked_of_the_network(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert {address.split(":")[0] for address in asked} <= {"file", "data"}


def test_the_hostile_name_stays_text(browser):
    names = [option.text for option in Select(named(browser, "pairs-x")).options]
    assert HOSTILE in names
    assert browser.find_elements(By.TAG_NAME, "img") == []
    Select(named(browser, "pairs-x")).select_by_index(names.index(HOSTILE))
    shown = [node.text for node in browser.find_elements(By.CLASS_NAME, "axis-name")]
    assert any(text and HOSTILE.startswith(text.rstrip("…")) for text in shown)
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 2


def test_choosing_columns_draws_again(browser):
    before = picture(browser)
    Select(named(browser, "pairs-y")).select_by_visible_text("log density")
    after = picture(browser)
    assert after != before
    assert "log density" in after
    assert points(browser, "data") > 20


def test_rows_and_draws_can_be_switched_off(browser):
    assert points(browser, "data") == points(browser, "draws") > 20
    click(browser, named(browser, "pairs-draws"))
    assert points(browser, "draws") == 0
    assert points(browser, "data") > 20
    click(browser, named(browser, "pairs-data"))
    assert points(browser, "data") == 0


def test_keys_walk_over_points_and_zoom(browser):
    plot = named(browser, "pairs-plot")
    Select(named(browser, "pairs-x")).select_by_visible_text("width")
    plot.send_keys(Keys.ARROW_RIGHT)
    first = named(browser, "pairs-detail").text
    plot.send_keys(Keys.ARROW_RIGHT)
    second = named(browser, "pairs-detail").text
    assert first != second
    assert all("log density" in text for text in (first, second))

    def width(text: str) -> float:
        lines = text.splitlines()
        return float(lines[lines.index("width") + 1].replace("−", "-"))

    assert width(first) <= width(second)
    whole = points(browser, "data") + points(browser, "draws")
    plot.send_keys("+")
    assert points(browser, "data") + points(browser, "draws") < whole
    plot.send_keys(Keys.ESCAPE)
    assert points(browser, "data") + points(browser, "draws") == whole


def test_pointing_at_a_row_shows_it_and_dragging_zooms(browser):
    plot = named(browser, "pairs-plot")
    centered(browser, plot)
    point = browser.find_elements(By.CSS_SELECTOR, "#pairs-plot .point-data")[0]
    ActionChains(browser).move_to_element(point).perform()
    assert browser.find_elements(By.CSS_SELECTOR, "#pairs-plot .picked")
    assert "width" in named(browser, "pairs-detail").text
    whole = points(browser, "draws")
    drag = ActionChains(browser).move_to_element_with_offset(plot, -60, -60).click_and_hold()
    drag.move_by_offset(120, 120).release().perform()
    assert points(browser, "draws") < whole
    click(browser, named(browser, "pairs-all"))
    assert points(browser, "draws") == whole


def column(browser, place: int) -> list[float]:
    cells = browser.find_elements(By.CSS_SELECTOR, f"#unusual-table tbody tr > :nth-child({place})")
    return [float(cell.get_attribute("data-value")) for cell in cells]


def test_the_table_sorts_both_ways(browser):
    heads = browser.find_elements(By.CSS_SELECTOR, "#unusual-table thead th")
    for place in (2, 4):
        button = heads[place - 1].find_element(By.TAG_NAME, "button")
        click(browser, button)
        assert column(browser, place) == sorted(column(browser, place))
        assert heads[place - 1].get_attribute("aria-sort") == "ascending"
        button.send_keys(Keys.ENTER)
        assert column(browser, place) == sorted(column(browser, place), reverse=True)
    assert heads[1].get_attribute("aria-sort") == "none"


def test_an_unusual_row_is_found_in_the_plot(browser):
    button = browser.find_element(By.CSS_SELECTOR, "#unusual-table .pick")
    number = button.text
    click(browser, button)
    assert named(browser, "pairs-detail").text.startswith(f"Row {number}\n")
    assert browser.switch_to.active_element == named(browser, "pairs-plot")


def test_a_narrow_page_does_not_overflow(browser):
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.refresh()
    widths = "return [document.documentElement.scrollWidth, window.innerWidth]"
    needed, there = browser.execute_script(widths)
    assert there == 400
    assert needed <= there


@pytest.fixture(scope="module")
def mixed_page(tmp_path_factory):
    """The address of a page about 20 rows of a category and a number, the first of them missing."""
    generator = np.random.default_rng(0)
    side = np.where(np.arange(60) % 3, "left", HOSTILE)
    frame = pd.DataFrame({"side": side, "width": generator.standard_normal(60) + (side == "left")})
    frame.loc[0, "width"] = np.nan
    path = tmp_path_factory.mktemp("mixed") / "report.html"
    write_report(path, data=frame[:20], model=KernelChain(random_state=0).fit(frame))
    return path.as_uri()


def test_levels_have_their_names_on_axes_and_in_words(chromium, mixed_page):
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chromium.get(mixed_page)
    widths = "return [document.documentElement.scrollWidth, window.innerWidth]"
    needed, there = chromium.execute_script(widths)
    assert needed <= there == 400
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.get(mixed_page)
    for axis in "xy":
        Select(named(chromium, f"pairs-{axis}")).select_by_visible_text("side")
        ticks = [node.text for node in chromium.find_elements(By.CSS_SELECTOR, "#pairs-plot .tick")]
        assert "left" in ticks
        assert any(HOSTILE.startswith(text.rstrip("…")) for text in ticks if len(text) > 3)
    assert points(chromium, "data") == 20
    # One level lies over the other, not all points in one place.
    places = chromium.find_elements(By.CSS_SELECTOR, "#pairs-plot .point-data")
    assert len({place.get_attribute("cx") for place in places}) > 10
    buttons = chromium.find_elements(By.CSS_SELECTOR, "#unusual-table .pick")
    click(chromium, next(button for button in buttons if button.text == "1"))
    detail = named(chromium, "pairs-detail").text.splitlines()
    assert detail[detail.index("side") + 1] == HOSTILE
    assert detail[detail.index("width") + 1] == "missing"
    assert chromium.find_elements(By.TAG_NAME, "img") == []
    assert not [one for one in chromium.get_log("browser") if one["level"] == "SEVERE"]


def contrast(browser, selector: str) -> float:
    """The ratio of the WCAG between an element's color and the page's."""

    def luminance(color: str) -> float:
        channels = np.array([int(part) for part in color.strip("rgba()").split(",")[:3]]) / 255
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        return float(linear @ [0.2126, 0.7152, 0.0722])

    script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    ink, paper = (
        luminance(browser.execute_script(script, *asked))
        for asked in ((selector, "color"), ("body", "backgroundColor"))
    )
    return (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_schemes(browser, scheme):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    for selector in ("body", ".lead", "nav a", ".note", ".card .value", "caption", ".pick"):
        assert contrast(browser, selector) >= 4.5
