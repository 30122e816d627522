import type { Page } from "@playwright/test";
import { mkdirSync } from "node:fs";
import { expect, test } from "./node";

const FOLDER = "../docs/console";

/** The pictures of docs/console.md: `make console-pictures`. */
test.skip(!process.env.PICTURES, "pictures are taken when somebody asks for them");

const VOLUMES = ["orders", "ledger", "search", "mail-store", "build-cache", "images", "backup", "metrics"];

async function take(page: Page, url: string, path: string, name: string) {
  await page.goto(`${url}/#${path}`);
  await expect(page.getByLabel("Loading")).toHaveCount(0);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: `${FOLDER}/${name}.png` });
}

test("the pages with a node under load", async ({ page, node }) => {
  test.setTimeout(600_000);
  mkdirSync(FOLDER, { recursive: true });
  await node.ask("PUT", "/v1/hosts/db1", { nqn: "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa" });
  await node.ask("PUT", "/v1/hosts/web1", { nqn: "nqn.2014-08.org.nvmexpress:uuid:77aa9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa" });
  for (const name of VOLUMES) await node.ask("PUT", `/v1/volumes/${name}`, { pool: "pool", size: "96MiB", hosts: ["any", "db1"] });
  await node.ask("PUT", "/v1/snapshots/orders-monday", { volume: "orders" });
  await node.ask("PUT", "/v1/snapshots/orders-tuesday", { volume: "orders" });
  await node.ask("POST", "/v1/pools/pool/scrub");
  for (const volume of VOLUMES.slice(0, 6)) await node.load(volume, 2, ["--rw", "write", "--bs", "64k"]);
  const seconds = 190;
  const loads = VOLUMES.slice(0, 5).map((volume, index) => (
    node.load(volume, seconds, ["--rw", "randrw", "--bs", "4k", "--rate-iops", String(200 * (index + 1))])
  ));
  await page.waitForTimeout((seconds - 60) * 1000);
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
