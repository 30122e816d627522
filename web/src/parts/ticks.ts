/** Where the lines of a chart's axes are: at round numbers, and at round times of the reader's clock. */

export type Scale = "decimal" | "binary" | "whole";

/** From 0 to the first round number that is not below `most`, in steps of 1, 2 or 5 times a power of
 * ten; for bytes in steps of powers of two, which are whole KiB, MiB and so on; for counts not below 1. */
export function ticks(most: number, scale: Scale = "decimal", lines = 4): number[] {
  const wanted = (most > 0 ? most : 1) / lines;
  const least = scale === "whole" ? 1 : 0;
  const step = scale === "binary" ? 2 ** Math.max(0, Math.ceil(Math.log2(wanted))) : Math.max(least, decimalStep(wanted));
  const count = Math.max(1, Math.ceil((most > 0 ? most : 1) / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, index) => scale === "binary" ? index * step : round(index * step));
}

function decimalStep(wanted: number): number {
  const power = 10 ** Math.floor(Math.log10(wanted));
  const factor = [1, 2, 5, 10].find((factor) => factor * power >= wanted * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/** Without what binary fractions add to decimal ones. */
function round(value: number): number {
  return Number(value.toPrecision(12));
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
  HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY,
];

/** Times in milliseconds, round by the clock on the reader's wall. */
export function timeTicks(from: number, to: number, lines = 5): number[] {
  const step = STEPS.find((step) => (to - from) / step <= lines) ?? 10 * DAY;
  const begin = new Date(from);
  const [year, month, day] = [begin.getFullYear(), begin.getMonth(), begin.getDate()];
  const midnight = new Date(year, month, day).getTime();
  const found: number[] = [];
  // An hour earlier, since some days have 23 or 25.
  const first = Math.max(0, Math.floor((from - midnight - HOUR) / step));
  for (let index = first; index - first < 1000; index += 1) {
    const seconds = (index * step) / SECOND;
    const at = new Date(year, month, day + Math.floor(seconds / 86_400), 0, 0, seconds % 86_400).getTime();
    if (at > to) break;
    if (at >= from) found.push(at);
  }
  return found;
}

/** A tick as short as the span allows. */
export function timeText(at: number, span: number): string {
  if (span > 2 * DAY) return new Date(at).toLocaleDateString(undefined, { day: "numeric", month: "short" });
  const seconds = span <= 2 * MINUTE ? { second: "2-digit" as const } : {};
  return new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...seconds });
}
