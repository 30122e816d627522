import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, type Node, test } from "./node";

/** Each page's link in the menu, heading and path. */
const PAGES = [
  ["Overview", "/"], ["Volumes", "/volumes"], ["Snapshots", "/snapshots"],
  ["Schedules", "/schedules"], ["Replications", "/replications"], ["Pools", "/pools"], ["Drives", "/drives"],
  ["Hosts", "/hosts"], ["Sessions", "/sessions"], ["Ports", "/ports"], ["Jobs", "/jobs"], ["Events", "/events"],
  ["Tenants", "/tenants"], ["Tokens", "/tokens"], ["Audit log", "/audit"], ["Settings", "/settings"], ["Drive models", "/models"],
] as const;

/** Pages of one object, each with more than one needs of what it may have. */
const DETAILS = [
  ["Volume seen", "/volumes/seen"], ["Pool pool", "/pools/pool"], ["Drive d0", "/drives/d0"], ["Host db1", "/hosts/db1"], ["Tenant acme", "/tenants/acme"],
] as const;

/** A volume with a snapshot, a host with a secret, a tenant with a grant, and a job. */
async function furnish(node: Node) {
  await node.ask("PUT", "/v1/hosts/db1", { nqn: "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa" });
  await node.ask("PUT", "/v1/tenants/acme/grants/pool", { size: "64MiB" });
  await node.ask("PUT", "/v1/volumes/seen", { pool: "pool", size: "32MiB", hosts: ["db1"] });
  await node.ask("PUT", "/v1/snapshots/seen-1", { volume: "seen" });
  await node.ask("PUT", "/v1/schedules/nightly", { volumes: ["seen"], keep: { hourly: 24, daily: 7, weekly: 4 } });
  // Nothing listens there: the row says so.
  await node.ask("PUT", "/v1/replications/seen", { volume: "seen", to: "http://127.0.0.1:9", token: "t", pool: "pool", every_seconds: 300 });
  const jobs = (await node.ask("GET", "/v1/jobs")) as { items: unknown[] };
  if (jobs.items.length === 0) await node.ask("POST", "/v1/pools/pool/scrub");
}

/** Where screenshots go, to be looked at. */
const picture = (name: string) => ({ path: `../target/web/screenshots/${name}.png`, fullPage: true });

async function open(page: Page, url: string, title: string, path: string) {
  await page.goto(`${url}/#${path}`);
  await expect(page.getByRole("heading", { level: 1, name: title })).toBeVisible();
  await expect(page.getByLabel("Loading")).toHaveCount(0);
}

/** Pixels that the page, or what stands at its top, is too wide for the window. */
async function sideways(page: Page): Promise<number> {
  return page.evaluate(() => {
    const ends = [...document.querySelectorAll("header *")].map((element) => element.getBoundingClientRect().right);
    return Math.max(document.documentElement.scrollWidth, ...ends) - window.innerWidth;
  });
}

for (const colorScheme of ["light", "dark"] as const) {
  for (const [title, path] of [...PAGES, ...DETAILS]) {
    test(`${title} can be read by everyone in ${colorScheme} colours, from 390 to 2,560 pixels`, async ({ page, node }) => {
      await furnish(node);
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      for (const [width, height] of [[390, 844], [1280, 800], [2560, 1440]] as const) {
        await page.setViewportSize({ width, height });
        await open(page, node.url, title, path);
        expect(await sideways(page), `${title} at ${width} pixels scrolls sideways`).toBeLessThanOrEqual(0);
        await page.screenshot(picture(`${title.toLowerCase().replaceAll(" ", "-")}-${width}-${colorScheme}`));
        // Nothing but more room sets the widest apart.
        if (width === 2560) continue;
        const found = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21aa"]).analyze();
        const faults = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((at) => at.html).join(" ")}`);
        expect(faults, `${title} at ${width} pixels`).toEqual([]);
      }
    });
  }
}

test("a keyboard is enough to get to every page", async ({ page, node }) => {
  await open(page, node.url, "Overview", "/");
  for (const [title] of PAGES.slice(1)) {
    const link = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: title, exact: true });
    await link.focus();
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 1, name: title })).toBeVisible();
  }
});

test("nothing is asked of any other machine, and nothing fails quietly", async ({ page, node }) => {
  await furnish(node);
  const strangers: string[] = [];
  const faults: string[] = [];
  page.on("request", (request) => { if (!request.url().startsWith(node.url) && !request.url().startsWith("data:")) strangers.push(request.url()); });
  // Drives of files tell nothing of their health, and manage no namespaces: that is no fault.
  page.on("console", (message) => { if (message.type() === "error" && !/\/drives\/d0\/(health|namespaces)/.test(message.location().url)) faults.push(message.text()); });
  page.on("pageerror", (error) => faults.push(String(error)));
  for (const [title, path] of [...PAGES, ...DETAILS]) await open(page, node.url, title, path);
  expect(strangers).toEqual([]);
  expect(faults).toEqual([]);
});
