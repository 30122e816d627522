import { expect, test } from "./node";

test("the overview shows load while there is some, and its last hour", async ({ page, node }) => {
  await page.goto(`${node.url}/#/`);
  const chart = page.getByRole("img", { name: "IOPS" });
  await expect(chart).toBeVisible();
  const card = page.locator("div", { has: page.getByRole("heading", { name: "IOPS" }) }).last();
  await expect(card).toContainText("Reads 0");
  const load = node.load("demo", 8);
  await expect(card).toContainText(/Reads [1-9]/);
  await expect(page.locator("div", { has: page.getByRole("heading", { name: "Throughput" }) }).last()).toContainText(/Read [1-9].*B\/s/);
  await load;
  await expect(card).toContainText("Reads 0");
  await page.getByText("1 hour").click();
  await expect(chart).toBeVisible();
});
