import type { Page } from "@playwright/test";
import { mkdirSync } from "node:fs";
import { expect, test } from "./node";

const FOLDER = "../docs/console";

/** The pictures of docs/console.md: `make console-pictures`. The charts show so many minutes of load. */
const MINUTES = Number(process.env.PICTURES_MINUTES ?? 60);
test.skip(!process.env.PICTURES, "pictures are taken when somebody asks for them");
test.use({ extra: ["--profile", "cm7-r-7.68", "--scale", "0.0002"] });

/** Each with its size and what it holds of that, as a part. */
const VOLUMES: [string, number, number][] = [
  ["orders", 3, 0.3], ["ledger", 2, 0.4], ["search", 1, 0.25], ["mail-store", 4, 0.15],
  ["build-cache", 2, 0.2], ["images", 3, 0.35], ["backup", 4, 0.1], ["metrics", 1, 0.15],
];
/** How many of these have hosts at work. */
const BUSY = 6;

function held(gib: number, part: number): string {
  return `${Math.round(gib * part * 1024)}MiB`;
}

async function take(page: Page, url: string, path: string, name: string) {
  await page.goto(`${url}/#${path}`);
  await expect(page.getByLabel("Loading")).toHaveCount(0);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: `${FOLDER}/${name}.png` });
}

test("the pages with a node under load", async ({ page, node }) => {
  test.setTimeout((MINUTES + 10) * 60_000);
  mkdirSync(FOLDER, { recursive: true });
  await node.ask("PUT", "/v1/hosts/db1", { nqn: "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa" });
  await node.ask("PUT", "/v1/hosts/web1", { nqn: "nqn.2014-08.org.nvmexpress:uuid:77aa9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa" });
  for (const [name, gib, part] of VOLUMES) {
    await node.ask("PUT", `/v1/volumes/${name}`, { pool: "pool", size: `${gib}GiB`, hosts: ["any", "db1"] });
    await node.load(name, undefined, ["--rw", "write", "--bs", "64k", "--size", held(gib, part)]);
  }
  await node.ask("PUT", "/v1/snapshots/orders-monday", { volume: "orders" });
  await node.ask("PUT", "/v1/snapshots/orders-tuesday", { volume: "orders" });
  await node.ask("POST", "/v1/pools/pool/scrub");
  const end = performance.now() + MINUTES * 60_000;
  const loads = VOLUMES.slice(0, BUSY).map(async ([name, gib, part], index) => {
    // The load of each changes every few minutes.
    for (let phase = index; performance.now() < end; phase += 1) {
      const rate = String(150 * (1 + (phase * 5 + index) % 7));
      const how = ["--rw", "randrw", "--bs", "4k", "--size", held(gib, part), "--rate-iops", rate];
      await node.load(name, 120 + 25 * index, how);
    }
  });
  await page.waitForTimeout(Math.max(0, end - performance.now() - 60_000));
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.setViewportSize({ width: 1280, height: 860 });
  await take(page, node.url, "/", "overview");
  await take(page, node.url, "/volumes", "volumes");
  await take(page, node.url, "/volumes/orders", "volume");
  await take(page, node.url, "/pools/pool", "pool");
  await take(page, node.url, "/drives/d0", "drive");
  await take(page, node.url, "/settings", "settings");
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await take(page, node.url, "/", "dark");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await take(page, node.url, "/volumes", "phone");
  await Promise.all(loads);
});
