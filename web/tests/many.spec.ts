import { expect, test } from "./node";

/** `VOLUMES=10000` makes ten thousand, which takes minutes, and says how long each step took. */
const VOLUMES = Number(process.env.VOLUMES ?? 1000);

/** The tables of a pool take a share of its drives: room for 1,260 volumes in each GiB of one. */
test.use({ extra: ["--drive-size", `${Math.ceil(VOLUMES / 1000)}GiB`] });

test("a thousand volumes can be found, ordered and scrolled through", async ({ page, node }) => {
  test.setTimeout(VOLUMES * 200);
  const name = (index: number) => `many-${String(index).padStart(5, "0")}`;
  for (let index = 0; index < VOLUMES; index += 1) {
    await node.ask("PUT", `/v1/volumes/${name(index)}`, { pool: "pool", size: "16MiB" });
  }
  const asked = performance.now();
  await node.ask("GET", "/v1/volumes");
  const answered = performance.now();
  await page.goto(`${node.url}/#/volumes`);
  const table = page.getByRole("table", { name: "Volumes" });
  await expect(table.getByRole("row").nth(1)).toBeVisible();
  const painted = performance.now();
  await expect(page.getByRole("status").filter({ hasText: "in all" })).toContainText(/^\d+ in all/);

  const frame = page.getByRole("group", { name: /^Volumes, scrolled/ });
  const longest = await frame.evaluate(async (element) => {
    // The longest time between two frames while all rows pass by in two seconds.
    let longest = 0;
    const begin = performance.now();
    for (let before = begin, now = begin; now - begin < 2000; before = now) {
      now = await new Promise<number>((drawn) => requestAnimationFrame(drawn));
      longest = Math.max(longest, now - before);
      element.scrollTop = element.scrollHeight * Math.min(1, (now - begin) / 2000);
    }
    return longest;
  });
  console.log(`${VOLUMES} volumes: first page of the API ${Math.round(answered - asked)} ms, first row ${Math.round(painted - answered)} ms, longest frame ${Math.round(longest)} ms`);
  const last = await table.getAttribute("aria-rowcount") ?? "";
  await expect(async () => {
    await frame.evaluate((element) => { element.scrollTop = element.scrollHeight; });
    await expect(table.getByRole("row").last()).toHaveAttribute("aria-rowindex", last, { timeout: 1000 });
  }).toPass();
  // Few rows are on the page, however many there are.
  expect(await table.getByRole("row").count()).toBeLessThan(80);

  await page.getByLabel("Filter volumes").fill("many-00777");
  await expect(table.getByRole("row")).toHaveCount(2);
  await page.getByLabel("Filter volumes").fill("many-");
  await expect(page.getByRole("status").filter({ hasText: "of" })).toContainText(`${VOLUMES} of`);
  await table.getByRole("button", { name: "Name" }).click();
  await table.getByRole("button", { name: "Name" }).click();
  await frame.evaluate((element) => { element.scrollTop = 0; });
  await expect(table.getByRole("row").nth(1)).toContainText(name(VOLUMES - 1));
});
