// Figures as files: always with the light colours of paper, whatever the page shows.

async function saveFigure(card, kind) {
  const number = Number(card.dataset.figure), name = card.dataset.name;
  if (kind === "csv") return save(`${name}.csv`, new Blob([await figureTable(number)], { type: "text/csv" }));
  const aside = make("div", { style: "position: absolute; left: -10000px", "aria-hidden": "true" });
  document.body.append(aside);
  try {
    const view = await drawInto(aside, number, { dark: false, renderer: "canvas" });
    view.background("white");
    await view.runAsync();
    if (kind === "svg") save(`${name}.svg`, new Blob([await view.toSVG()], { type: "image/svg+xml" }));
    else {
      const canvas = await view.toCanvas(kind === "png" ? 3 : 4);
      const blob = kind === "png" ? await new Promise((done) => canvas.toBlob(done)) : await pdfOf(canvas, 4);
      save(`${name}.${kind}`, blob);
    }
    view.finalize();
  } finally {
    aside.remove();
  }
}

/** The data behind a figure, one table below the other where there are several. */
async function figureTable(number) {
  const { spec, tables } = await figureSource(number);
  const quoted = (value) => (/[",\n\r]/.test(String(value ?? "")) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return [...tablesIn(spec)].filter((name) => name in tables).map((name) => {
    const rows = rowsOf(tables[name]), names = Object.keys(tables[name]);
    return [names, ...rows.map((row) => names.map((each) => row[each]))].map((row) => row.map(quoted).join(",")).join("\r\n");
  }).join("\r\n\r\n") + "\r\n";
}

/** A PDF of one page that holds the canvas without loss: RGB pixels, deflated. */
async function pdfOf(canvas, scale) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const pixels = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; from < data.length; from += 4) {
    pixels[to++] = data[from];
    pixels[to++] = data[from + 1];
    pixels[to++] = data[from + 2];
  }
  const packed = new Blob([pixels]).stream().pipeThrough(new CompressionStream("deflate"));
  const image = new Uint8Array(await new Response(packed).arrayBuffer());
  const [w, h] = [width / scale, height / scale].map((size) => (size * 0.75).toFixed(2)); // pixels of 1/96 in
  const drawing = `q ${w} 0 0 ${h} 0 0 cm /Figure Do Q`;
  const objects = [
    ["<< /Type /Catalog /Pages 2 0 R >>"],
    ["<< /Type /Pages /Kids [3 0 R] /Count 1 >>"],
    [`<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${w} ${h}] /Contents 4 0 R /Resources << /XObject << /Figure 5 0 R >> >> >>`],
    [`<< /Length ${drawing.length} >>\nstream\n${drawing}\nendstream`],
    [`<< /Type /XObject /Subtype /Image /Width ${width} /Height ${height} /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /FlateDecode /Length ${image.length} >>\nstream\n`, image, "\nendstream"],
  ];
  const parts = [], offsets = [];
  let length = 0;
  const write = (part) => {
    const bytes = typeof part === "string" ? new TextEncoder().encode(part) : part;
    parts.push(bytes);
    length += bytes.length;
  };
  write("%PDF-1.4\n");
  objects.forEach((content, i) => {
    offsets.push(length);
    [`${i + 1} 0 obj\n`, ...content, "\nendobj\n"].forEach(write);
  });
  const start = length;
  const table = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("");
  write(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`);
  return new Blob(parts, { type: "application/pdf" });
}
