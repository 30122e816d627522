import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "@playwright/test";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { program } from "./node";

const screen = { width: 1440, height: 900 };
const plans = ["namespace", "raid6", "network", "cassandra", "tpcc"];

let folder = "";
test.beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "flashyard-reports-"));
  for (const plan of plans) {
    const to = join(folder, `${plan}.html`);
    execFileSync(program(), ["lab", "report", `../docs/results/${plan}.json`, "--format", "html", "--to", to]);
  }
});
test.afterAll(() => rmSync(folder, { recursive: true }));

for (const plan of plans) {
  test(`the report of ${plan} answers on its first screen, and is short`, async ({ page }) => {
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.setViewportSize(screen);
    await page.goto(pathToFileURL(join(folder, `${plan}.html`)).href);
    expect(asked).toHaveLength(1);
    const end = async (selector: string) => {
      const box = await page.locator(selector).first().boundingBox();
      return box!.y + box!.height;
    };
    expect(await end(".question")).toBeLessThan(screen.height);
    expect(await end(".answer")).toBeLessThan(screen.height);
    // The ratios begin there, too.
    const ratios = await page.getByRole("img", { name: "Ratios, measured and published" }).boundingBox();
    expect(ratios!.y).toBeLessThan(screen.height - 200);
    const details = await page.locator("details").first().boundingBox();
    expect(details!.y).toBeLessThan(4 * screen.height);
    await page.screenshot({ path: `../target/web/report-${plan}.png` });
  });

  test(`the report of ${plan} is accessible, light and dark, wide and narrow`, async ({ page }) => {
    // Two minutes are short for axe where builds run beside it.
    test.slow();
    for (const [colorScheme, width] of [["light", 390], ["dark", 1440]] as const) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      await page.goto(pathToFileURL(join(folder, `${plan}.html`)).href);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      expect(wide).toBeLessThanOrEqual(width);
      // Folded charts over time are thousands of rectangles, and axe looks at each.
      const found = await new AxeBuilder({ page }).exclude(".drawn").analyze();
      expect(found.violations.map((one) => `${one.id}: ${one.nodes[0]?.html}`)).toEqual([]);
    }
  });
}

test("a report prints without what is folded", async ({ page }) => {
  await page.emulateMedia({ media: "print" });
  await page.goto(pathToFileURL(join(folder, "tpcc.html")).href);
  await expect(page.locator("details").first()).toBeHidden();
  await expect(page.locator(".answer")).toBeVisible();
});
