// Small tools that the other scripts share.

const find = (selector, root = document) => root.querySelector(selector);
const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

/** An element with attributes and children; strings become text, never markup. */
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "rect", "text", "circle", "g"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** The JSON in a script element, gzipped and in base64. */
async function unpacked(id) {
  const stream = new Blob([bytesOf(find(`#${id}`).textContent)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("gzip"))).json();
}

/** A number with four digits, as one writes it. */
function spoken(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2).replace(/\.?0+e/, "e") : String(Number(value.toPrecision(4)));
  return text.replace("-", "−").replace("e+", "e");
}

const shownValue = (value) => (typeof value === "number" ? spoken(value) : String(value));

function save(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Keep waiting until the page has nothing else to do, so that opening it stays quick. */
const idle = () => new Promise((resolve) => (window.requestIdleCallback || setTimeout)(resolve));
