import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, test } from "./node";

const PAGES = ["Overview", "Volumes", "Pools", "Drives", "Hosts", "Sessions", "Events", "Drive models"];
const PATHS: Record<string, string> = { Overview: "/", "Drive models": "/models" };
const path = (title: string) => PATHS[title] ?? `/${title.toLowerCase()}`;

/** Where screenshots go, to be looked at. */
const picture = (name: string) => ({ path: `../target/web/screenshots/${name}.png`, fullPage: true });

async function open(page: Page, url: string, title: string) {
  await page.goto(`${url}/#${path(title)}`);
  await expect(page.getByRole("heading", { level: 1, name: title })).toBeVisible();
  await expect(page.getByLabel("Loading")).toHaveCount(0);
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`every page can be read by everyone in ${colorScheme} colours, wide and on a phone`, async ({ page, node }) => {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const title of PAGES) {
      for (const [width, height, device] of [[1280, 800, "wide"], [360, 740, "phone"]] as const) {
        await page.setViewportSize({ width, height });
        await open(page, node.url, title);
        const scrolled = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect(scrolled, `${title} on ${device} scrolls sideways`).toBeLessThanOrEqual(0);
        await page.screenshot(picture(`${title.toLowerCase().replace(" ", "-")}-${device}-${colorScheme}`));
        const found = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21aa"]).analyze();
        const faults = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((at) => at.html).join(" ")}`);
        expect(faults, `${title} on ${device}`).toEqual([]);
      }
    }
  });
}

test("a keyboard is enough to get to every page", async ({ page, node }) => {
  await open(page, node.url, "Overview");
  for (const title of PAGES.slice(1)) {
    const link = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: title, exact: true });
    await link.focus();
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 1, name: title })).toBeVisible();
  }
});

test("nothing is asked of any other machine, and nothing fails quietly", async ({ page, node }) => {
  const strangers: string[] = [];
  const faults: string[] = [];
  page.on("request", (request) => { if (!request.url().startsWith(node.url) && !request.url().startsWith("data:")) strangers.push(request.url()); });
  page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
  page.on("pageerror", (error) => faults.push(String(error)));
  for (const title of PAGES) await open(page, node.url, title);
  expect(strangers).toEqual([]);
  expect(faults).toEqual([]);
});
