import { expect, test } from "@playwright/test";
import { ticks, timeText, timeTicks } from "../src/parts/ticks";

test("axes have round numbers, whatever the highest value is", () => {
  expect(ticks(0)).toEqual([0, 0.5, 1]);
  expect(ticks(87)).toEqual([0, 50, 100]);
  expect(ticks(100)).toEqual([0, 50, 100]);
  expect(ticks(1234)).toEqual([0, 500, 1000, 1500]);
  for (let value = 0.001; value < 1e12; value *= 1.7) {
    const found = ticks(value);
    const step = found[1]!;
    const digit = Number(step.toExponential()[0]);
    expect([1, 2, 5], `a step of ${step}`).toContain(digit);
    expect(found[found.length - 1]).toBeGreaterThanOrEqual(value * (1 - 1e-9));
    expect(found.length).toBeLessThanOrEqual(6);
  }
});

test("bytes have whole KiB, MiB and so on", () => {
  expect(ticks(3 * 2 ** 30, "binary")).toEqual([0, 2 ** 30, 2 * 2 ** 30, 3 * 2 ** 30]);
  for (let value = 1; value < 2 ** 50; value *= 1.7) {
    const found = ticks(value, "binary");
    expect(Number.isInteger(Math.log2(found[1]!))).toBe(true);
    expect(found[found.length - 1]).toBeGreaterThanOrEqual(value);
    expect(found.length).toBeLessThanOrEqual(6);
  }
});

test("times are round by the reader's clock, also where that is half an hour off and on days of 23 hours", () => {
  for (const zone of ["UTC", "Asia/Kolkata", "America/New_York"]) {
    process.env.TZ = zone;
    for (const span of [300e3, 3600e3, 86_400e3, 30 * 86_400e3]) {
      // The night in which America's clocks go forward, and an ordinary afternoon.
      for (const end of [Date.UTC(2026, 2, 8, 9, 17, 3), Date.UTC(2026, 10, 26, 14, 5, 59)]) {
        const found = timeTicks(end - span, end);
        expect(found.length, `${zone} ${span}`).toBeGreaterThanOrEqual(2);
        expect(found.length).toBeLessThanOrEqual(6);
        for (const at of found.map((at) => new Date(at))) {
          expect(at.getSeconds()).toBe(0);
          if (span > 3600e3) expect(at.getMinutes()).toBe(0);
          if (span === 86_400e3) expect(at.getHours() % 6).toBe(0);
          if (span > 86_400e3) expect(at.getHours()).toBe(0);
        }
      }
    }
  }
  process.env.TZ = "UTC";
  expect(timeText(Date.UTC(2026, 10, 26, 14, 5), 3600e3)).toMatch(/0?2:05|14:05/);
});
