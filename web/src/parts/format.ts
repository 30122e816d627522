const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Bytes with a binary suffix and three significant digits: 1.50 TiB. */
export function bytes(count: number): string {
  let power = 0;
  let value = count;
  while (Math.abs(value) >= 1024 && power < BINARY.length - 1) {
    value /= 1024;
    power += 1;
  }
  const digits = power === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${BINARY[power]}`;
}

/** Bytes per second, decimal as networks and drives are sold: 1.2 GB/s. */
export function bytesPerSecond(count: number): string {
  return `${scaled(count)}B/s`;
}

/** A count with a decimal prefix: 1.2 M. */
export function scaled(count: number): string {
  for (const [limit, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "K"]] as const) {
    if (Math.abs(count) >= limit) return `${(count / limit).toPrecision(3)} ${prefix}`;
  }
  return `${count < 10 && count % 1 !== 0 ? count.toFixed(1) : Math.round(count)} `;
}

export function microseconds(value: number): string {
  if (value >= 1e6) return `${(value / 1e6).toPrecision(3)} s`;
  if (value >= 1e3) return `${(value / 1e3).toPrecision(3)} ms`;
  return `${value.toPrecision(3)} µs`;
}

export function percent(share: number, digits = 0): string {
  return `${(share * 100).toFixed(digits)}%`;
}

export function dateTime(text: string): string {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : time.toLocaleString();
}

/** How long ago, in the largest unit that fits. */
export function ago(text: string, now = Date.now()): string {
  const seconds = Math.max(0, (now - new Date(text).getTime()) / 1000);
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"]] as const;
  for (const [length, name] of units) {
    const count = Math.floor(seconds / length);
    if (count >= 1) return `${count} ${name}${count === 1 ? "" : "s"} ago`;
  }
  return "just now";
}

const SUFFIXES: Record<string, number> = {
  "": 1, b: 1,
  kib: 1024, mib: 1024 ** 2, gib: 1024 ** 3, tib: 1024 ** 4, pib: 1024 ** 5,
  kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, pb: 1e15,
};

/** A size as people write it (10GiB, 1.5 TB, 4096), in bytes; nothing if it is none. */
export function parseSize(text: string): number | undefined {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text);
  const factor = SUFFIXES[found?.[2]?.toLowerCase() ?? "?"];
  if (!found || factor === undefined) return undefined;
  const value = Number(found[1]) * factor;
  return Number.isSafeInteger(Math.round(value)) ? Math.round(value) : undefined;
}

/** Without zeros that say nothing: 1.50 K is 1.5 K, and 200.0 is 200. */
export function trimmed(text: string): string {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "").trim();
}

const DURATIONS: [string, number][] = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** Seconds in units of time, in the largest two unless asked for more: 1h 30m. */
export function duration(seconds: number, units = 2): string {
  let left = Math.max(0, Math.round(seconds));
  const words: string[] = [];
  for (const [unit, length] of DURATIONS) {
    const count = Math.floor(left / length);
    left -= count * length;
    if (count > 0) words.push(`${count}${unit}`);
  }
  return words.slice(0, units).join(" ") || "0s";
}

/** A time as people write it (30s, 5min, 1h 30m, 2 days), in seconds; nothing if it is none. */
export function parseDuration(text: string): number | undefined {
  const words = text.trim().toLowerCase();
  if (!/^(\d+\s*(s|sec|m|min|h|hours?|d|days?)\s*)+$/.test(words)) return undefined;
  const parts = [...words.matchAll(/(\d+)\s*([a-z])/g)];
  const seconds = parts.map(([, count, unit]) => Number(count) * (DURATIONS.find(([sign]) => sign === unit)?.[1] ?? NaN));
  return seconds.reduce((sum, part) => sum + part, 0);
}
