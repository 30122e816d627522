import { expect, test } from "./node";

const VOLUMES = 1000;

test("a thousand volumes can be found, ordered and paged through", async ({ page, node }) => {
  const pools = (await node.ask("GET", "/v1/pools")) as { items: { name: string }[] };
  const pool = pools.items[0]?.name;
  const name = (index: number) => `many-${String(index).padStart(4, "0")}`;
  for (let index = 0; index < VOLUMES; index += 1) {
    await node.ask("PUT", `/v1/volumes/${name(index)}`, { pool, size: "16MiB" });
  }
  await page.goto(`${node.url}/#/volumes`);
  const table = page.getByRole("table", { name: "Volumes" });
  await expect(page.getByRole("status").filter({ hasText: "in all" })).toContainText(/10\d\d in all/);
  await page.getByLabel("Filter volumes").fill("many-0777");
  await expect(table.getByRole("row")).toHaveCount(2);
  await page.getByLabel("Filter volumes").fill("many-");
  await expect(page.getByRole("status").filter({ hasText: "of" })).toContainText(`${VOLUMES} of`);
  await table.getByRole("button", { name: "Name" }).click();
  await table.getByRole("button", { name: "Name" }).click();
  await expect(table.getByRole("row").nth(1)).toContainText(name(VOLUMES - 1));
  await page.getByRole("button", { name: "page 2", exact: true }).click();
  await expect(table.getByRole("row").nth(1)).toContainText(name(VOLUMES - 1 - 50));
});
