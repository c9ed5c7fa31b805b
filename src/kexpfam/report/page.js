"use strict";

// The pair plot and the sorting of tables. Text from the data is only ever set as text.

(() => {
  const picture = JSON.parse(document.getElementById("picture").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const plot = document.getElementById("pairs-plot");
  const detail = document.getElementById("pairs-detail");
  const control = (name) => document.getElementById(`pairs-${name}`);
  const last = picture.columns.length - 1;

  // Names of a column's levels, whose values are their places; null for numbers.
  const levels = picture.levels ?? picture.columns.map(() => null);
  // Points of a level are spread around its place, evenly and always in the same way.
  const spread = (place, ratio) => (((place + 1) * ratio) % 1 - 0.5) * 0.6;

  // Draws first: rows lie above them.
  const points = ["draws", "data"].flatMap((kind) =>
    picture[kind].values.map((values, place) => ({
      kind,
      values: [...values, picture[kind].log_density[place]],
      shift: [spread(place, 0.618034), spread(place, 0.414214)],
      name: kind === "data" ? `Row ${picture.data.numbers[place]}` : `Draw ${place + 1}`,
      number: kind === "data" ? picture.data.numbers[place] : null,
    })),
  );

  let columns = picture.start;
  let view = null;
  let picked = null;
  let frame = null;
  let dragged = null;

  const made = (tag, attributes, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  const shown = (value) => {
    if (typeof value !== "number") return String(value);
    const size = Math.abs(value);
    const text =
      size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(3) : String(Number(value.toPrecision(5)));
    return text.replaceAll("-", "−");
  };

  const inWords = (value, column) => {
    if (column !== last && value === "not a number") return "missing";
    if (!levels[column]) return shown(value);
    return typeof value === "number" ? (levels[column][value] ?? shown(value)) : "unknown";
  };

  const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  const marks = (column, low, high, most) => {
    if (!levels[column]) return ticks(low, high, most).map((tick) => [tick, shown(tick)]);
    const every = levels[column].map((name, place) => [place, name]).filter(([place]) => place >= low && place <= high);
    const step = Math.ceil(every.length / Math.max(most, 12));
    return every.filter((_, place) => place % step === 0);
  };

  const ticks = (low, high, most) => {
    const rough = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 1.0001);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
      found.push(Number((k * step).toPrecision(12)));
    }
    return found;
  };

  const visible = () =>
    points.filter(
      (point) =>
        (control(point.kind)?.checked ?? false) &&
        columns.every((column) => typeof point.values[column] === "number"),
    );

  // What the axes span: everything there is in these columns, shown or not, so that switching rows
  // and draws on and off compares them in one place.
  const whole = () =>
    columns.map((column) => {
      if (levels[column]) return [-0.6, levels[column].length - 0.4];
      const values = points.map((point) => point.values[column]).filter((one) => typeof one === "number");
      let low = values.reduce((one, other) => Math.min(one, other), Infinity);
      let high = values.reduce((one, other) => Math.max(one, other), -Infinity);
      if (!(high > low)) [low, high] = Number.isFinite(low) ? [low - 0.5, low + 0.5] : [0, 1];
      const margin = 0.04 * (high - low);
      return [low - margin, high + margin];
    });

  const place = (point) =>
    columns.map((column, axis) =>
      frame.place[axis](point.values[column] + (levels[column] ? point.shift[axis] : 0)),
    );

  const inside = ([x, y]) =>
    x >= frame.left && x <= frame.right && y >= frame.top && y <= frame.bottom;

  const draw = () => {
    const { width, height } = plot.getBoundingClientRect();
    if (!width) return;
    const [across, up] = view ?? whole();
    const [left, right, top, bottom] = [levels[columns[1]] ? 118 : 66, width - 14, 14, height - 48];
    frame = {
      left,
      right,
      top,
      bottom,
      spans: [across, up],
      place: [
        (value) => left + ((value - across[0]) / (across[1] - across[0])) * (right - left),
        (value) => bottom - ((value - up[0]) / (up[1] - up[0])) * (bottom - top),
      ],
      value: [
        (x) => across[0] + ((x - left) / (right - left)) * (across[1] - across[0]),
        (y) => up[0] + ((bottom - y) / (bottom - top)) * (up[1] - up[0]),
      ],
    };
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const parts = [];
    const room = Math.max(2, Math.floor(width / 110));
    const letters = Math.max(3, Math.floor((right - left) / 8 / Math.max(1, levels[columns[0]]?.length ?? 1)));
    for (const [tick, words] of marks(columns[0], ...across, room)) {
      const x = frame.place[0](tick);
      parts.push(made("line", { x1: x, x2: x, y1: top, y2: bottom, class: "grid" }));
      parts.push(made("text", { x, y: bottom + 18, "text-anchor": "middle", class: "tick" }, short(words, levels[columns[0]] ? letters : 99)));
    }
    for (const [tick, words] of marks(columns[1], ...up, 6)) {
      const y = frame.place[1](tick);
      parts.push(made("line", { x1: left, x2: right, y1: y, y2: y, class: "grid" }));
      parts.push(made("text", { x: left - 7, y: y + 4, "text-anchor": "end", class: "tick" }, short(words, levels[columns[1]] ? 12 : 99)));
    }
    const middle = (top + bottom) / 2;
    const [first, second] = columns.map((column) => picture.columns[column]);
    parts.push(
      made("text", { x: (left + right) / 2, y: height - 10, "text-anchor": "middle", class: "axis-name" }, short(first, 42)),
      made(
        "text",
        { x: 16, y: middle, "text-anchor": "middle", class: "axis-name", transform: `rotate(-90 16 ${middle})` },
        short(second, 42),
      ),
    );
    const dots = visible();
    for (const point of dots) {
      const [x, y] = place(point);
      if (!inside([x, y])) continue;
      parts.push(
        point.kind === "data"
          ? made("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 2.4, class: "point-data" })
          : made("path", {
              d: `M${x.toFixed(1)} ${(y - 3).toFixed(1)}l3 3l-3 3l-3 -3z`,
              class: "point-draws",
            }),
      );
    }
    plot.replaceChildren(...parts);
    plot.setAttribute("aria-label", `Pair plot: ${first} across, ${second} up; ${dots.length} points`);
    if (picked && !dots.includes(picked)) picked = null;
    ring();
  };

  const ring = () => {
    plot.querySelector(".picked")?.remove();
    if (picked && frame && columns.every((column) => typeof picked.values[column] === "number")) {
      const [cx, cy] = place(picked);
      if (inside([cx, cy])) plot.append(made("circle", { cx, cy, r: 7, class: "picked" }));
    }
    describe();
  };

  const describe = () => {
    detail.replaceChildren();
    const heading = document.createElement("h3");
    heading.textContent = picked ? picked.name : "No point chosen";
    detail.append(heading);
    if (!picked) return;
    const list = document.createElement("dl");
    for (const column of [last, ...picture.columns.keys()].slice(0, last + 1)) {
      const term = document.createElement("dt");
      const value = document.createElement("dd");
      term.textContent = picture.columns[column];
      value.textContent = inWords(picked.values[column], column);
      list.append(term, value);
    }
    detail.append(list);
  };

  const pick = (point) => {
    if (point === picked) return;
    picked = point;
    ring();
  };

  const nearest = (x, y) => {
    let best = null;
    let least = 18 ** 2;
    for (const point of visible()) {
      const [px, py] = place(point);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least && inside([px, py])) [best, least] = [point, distance];
    }
    return best;
  };

  const position = (event) => {
    const box = plot.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  const step = (axis, direction) => {
    const order = visible()
      .filter((point) => inside(place(point)))
      .sort((one, other) => one.values[columns[axis]] - other.values[columns[axis]]);
    if (!order.length) return;
    const at = order.indexOf(picked);
    const next = at < 0 ? Math.floor(order.length / 2) : at + direction;
    pick(order[Math.min(Math.max(next, 0), order.length - 1)]);
  };

  const zoom = (factor) => {
    view = frame.spans.map(([low, high], axis) => {
      const at = picked ? picked.values[columns[axis]] : NaN;
      const center = Number.isFinite(at) && at >= low && at <= high ? at : (low + high) / 2;
      return [center - (center - low) * factor, center + (high - center) * factor];
    });
    draw();
  };

  const showAll = () => {
    view = null;
    draw();
  };

  const keys = {
    ArrowRight: () => step(0, 1),
    ArrowLeft: () => step(0, -1),
    ArrowUp: () => step(1, 1),
    ArrowDown: () => step(1, -1),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    Escape: () => showAll(),
  };

  plot.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });

  plot.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) {
      dragged = position(event);
      plot.setPointerCapture(event.pointerId);
    } else {
      pick(nearest(...position(event)));
    }
  });

  const clamped = ([x, y]) => [
    Math.min(Math.max(x, frame.left), frame.right),
    Math.min(Math.max(y, frame.top), frame.bottom),
  ];

  const corners = (event) => {
    const [[ax, ay], [bx, by]] = [clamped(dragged), clamped(position(event))];
    return { x: Math.min(ax, bx), y: Math.min(ay, by), width: Math.abs(ax - bx), height: Math.abs(ay - by) };
  };

  plot.addEventListener("pointermove", (event) => {
    if (!dragged) {
      if (event.pointerType === "mouse") pick(nearest(...position(event)) ?? picked);
      return;
    }
    plot.querySelector(".lens")?.remove();
    plot.append(made("rect", { ...corners(event), class: "lens" }));
  });

  plot.addEventListener("pointerup", (event) => {
    if (!dragged) return;
    const { x, y, width, height } = corners(event);
    dragged = null;
    plot.querySelector(".lens")?.remove();
    if (width < 8 || height < 8) return;
    view = [
      [frame.value[0](x), frame.value[0](x + width)],
      [frame.value[1](y + height), frame.value[1](y)],
    ];
    draw();
  });

  plot.addEventListener("pointercancel", () => {
    dragged = null;
    plot.querySelector(".lens")?.remove();
  });

  for (const name of ["x", "y"]) {
    control(name).addEventListener("change", () => {
      columns = [Number(control("x").value), Number(control("y").value)];
      showAll();
    });
  }
  for (const name of ["data", "draws"]) control(name)?.addEventListener("change", draw);
  control("in").addEventListener("click", () => zoom(0.5));
  control("out").addEventListener("click", () => zoom(2));
  control("all").addEventListener("click", showAll);

  // Browsers restore a form's choices when a page is loaded again.
  columns = [Number(control("x").value), Number(control("y").value)];
  new ResizeObserver(draw).observe(plot);
  addEventListener("beforeprint", draw);
  draw();

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const rising = head.getAttribute("aria-sort") !== "ascending";
        for (const one of heads) one.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const value = (row) => {
          const text = row.cells[column].dataset.value;
          if (text === "nan") return -Infinity;
          return Number(text.replace("inf", "Infinity"));
        };
        const compare = (one, other) => (value(one) < value(other) ? -1 : value(one) > value(other) ? 1 : 0);
        const rows = [...table.tBodies[0].rows].sort((one, other) => (rising ? 1 : -1) * compare(one, other));
        table.tBodies[0].append(...rows);
      });
    });
  }

  for (const button of document.querySelectorAll("button.pick")) {
    button.addEventListener("click", () => {
      const number = Number(button.textContent);
      const box = control("data");
      if (box && !box.checked) box.checked = true;
      view = null;
      draw();
      pick(points.find((point) => point.number === number) ?? null);
      document.getElementById("pairs").scrollIntoView();
      plot.focus({ preventScroll: true });
    });
  }
})();
