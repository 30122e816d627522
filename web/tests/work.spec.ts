import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "./node";

test("a volume is made, given to a host, grown, snapshotted, cloned and deleted", async ({ page, node }) => {
  await node.ask("PUT", "/v1/hosts/db1", { nqn: "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa" });
  await page.goto(`${node.url}/#/volumes`);

  await page.getByRole("button", { name: "Create volume" }).click();
  const create = page.getByRole("dialog", { name: "Create volume" });
  await create.getByLabel("Name").fill("Not a name");
  await create.getByLabel("Size").fill("32MiB");
  await create.getByRole("button", { name: "Create" }).click();
  await expect(create.getByText(/allowed/)).toBeVisible();
  await create.getByLabel("Name").fill("orders");
  await create.getByLabel("Allowed hosts").click();
  await page.getByRole("option", { name: "db1" }).click();
  await create.getByLabel("Name").click();
  await create.getByRole("button", { name: "Create" }).click();
  await expect(create).toBeHidden();

  await page.goto(`${node.url}/#/volumes/orders`);
  await expect(page.getByText("nvme connect --transport")).toContainText(":orders");
  await page.getByRole("button", { name: "Resize" }).click();
  const resize = page.getByRole("dialog", { name: "Resize orders" });
  await resize.getByLabel("Size").fill("64MiB");
  await resize.getByRole("button", { name: "Grow" }).click();
  await expect(page.getByRole("table", { name: "Properties" })).toContainText("64.0 MiB");

  await page.getByRole("button", { name: "Snapshot", exact: true }).click();
  const take = page.getByRole("dialog", { name: "Snapshot of orders" });
  await take.getByLabel("Name").fill("before");
  await take.getByRole("button", { name: "Take" }).click();
  await page.getByRole("button", { name: "Clone before" }).click();
  const clone = page.getByRole("dialog", { name: "Clone of snapshot before" });
  await clone.getByLabel("Name").fill("trial");
  await clone.getByRole("button", { name: "Create" }).click();
  await expect(page.getByRole("list", { name: "Snapshots of orders" })).toContainText("trial");

  const volume = (await node.ask("GET", "/v1/volumes/orders")) as { capacity_bytes: number; hosts: string[] };
  expect(volume).toMatchObject({ capacity_bytes: 64 << 20, hosts: ["db1"] });

  await page.getByRole("link", { name: "trial" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  const last = page.getByRole("dialog", { name: "Delete volume trial" });
  await expect(last.getByRole("button", { name: "Delete" })).toBeDisabled();
  await last.getByLabel("Type trial to confirm").fill("trial");
  await last.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Volumes" })).toBeVisible();
  await expect(node.ask("GET", "/v1/volumes/trial")).rejects.toThrow("404");
});

test("a volume is limited and promised a minimum while it is used", async ({ page, node }) => {
  await node.ask("PUT", "/v1/volumes/paced", { pool: "pool", size: "32MiB", hosts: ["any"] });
  await node.ask("PUT", "/v1/volumes/paced/limits", { write: { bytes_per_second: 123_456_789 }, total: { iops_per_gib: 7 } });
  await page.goto(`${node.url}/#/volumes/paced`);
  await expect(page.getByText("IOPS limit: 7 for each GiB")).toBeVisible();
  const save = page.getByRole("button", { name: "Save limits" });
  await page.getByLabel("IOPS limit", { exact: true }).fill("50");
  await save.click();
  await expect(page.getByText("50; allowed: 100 or more")).toBeVisible();
  await page.getByLabel("IOPS limit", { exact: true }).fill("5000");
  await page.getByLabel("Read bandwidth limit").fill("plenty");
  await expect(save).toBeDisabled();
  await page.getByLabel("Read bandwidth limit").fill("20MB");
  await page.getByLabel("Minimum IOPS").fill("1000");
  await save.click();
  await expect(page.getByText("Limits of paced changed")).toBeVisible();
  const limits = async () => ((await node.ask("GET", "/v1/volumes/paced")) as { limits?: unknown }).limits;
  expect(await limits()).toEqual({
    read: { bytes_per_second: 20_000_000 },
    write: { bytes_per_second: 123_456_789 },
    total: { iops: 5000, iops_per_gib: 7 },
    burst_ms: 10,
    minimum_iops: 1000,
  });
});

test("a pool shows what its segments are", async ({ page, node }) => {
  await node.ask("PUT", "/v1/volumes/filled", { pool: "pool", size: "512MiB", hosts: ["any"] });
  await node.load("filled", 3, ["--rw", "write", "--bs", "128k", "--iodepth", "16"]);
  await page.goto(`${node.url}/#/pools`);
  await expect(page.getByText(/^Segments: \d+ free, \d+ ready, \d+ open, [1-9]\d* full/)).toBeVisible();
  await expect(page.getByRole("img", { name: /^Full segments of pool: .*% live: \d+/ })).toBeVisible();
  const left = page.getByText("Redundancy left").locator("xpath=..");
  await expect(left).toHaveText("Redundancy left2 drives");
  await page.setViewportSize({ width: 360, height: 740 });
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.screenshot({ path: `../target/web/screenshots/segments-phone-${colorScheme}.png`, fullPage: true });
    const found = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21aa"]).analyze();
    expect(found.violations.map(({ id }) => id)).toEqual([]);
    const scrolled = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(scrolled).toBeLessThanOrEqual(0);
  }
  const { segments } = (await node.ask("GET", "/v1/pools/pool")) as { segments: { closed: number[] } };
  expect(segments.closed.length).toBe(10);
});

test("a tenant's operator makes a volume within what was granted", async ({ browser, node }) => {
  await node.ask("PUT", "/v1/tenants/acme/grants/pool", { size: "64MiB" });
  const { secret } = (await node.ask("PUT", "/v1/tokens/acme", { role: "operator", tenant: "acme" })) as { secret: string };
  const page = await (await browser.newContext()).newPage();
  await page.addInitScript((value) => sessionStorage.setItem("flashyard-token", value), secret);
  await page.goto(`${node.url}/#/volumes`);
  await page.getByRole("button", { name: "Create volume" }).click();
  const create = page.getByRole("dialog", { name: "Create volume" });
  await expect(create.getByLabel("Pool")).toHaveText("pool, 64.0 MiB left of your grant");
  await create.getByLabel("Name").fill("own");
  await create.getByLabel("Size").fill("65MiB");
  await create.getByRole("button", { name: "Create" }).click();
  await expect(create.getByText(/may have 64 MiB/)).toBeVisible();
  await create.getByLabel("Size").fill("32MiB");
  await create.getByRole("button", { name: "Create" }).click();
  await expect(create).toBeHidden();
  await page.getByRole("link", { name: "own" }).click();
  await page.getByRole("button", { name: "Snapshot", exact: true }).click();
  const take = page.getByRole("dialog", { name: "Snapshot of own" });
  await take.getByLabel("Name").fill("own-1");
  await take.getByRole("button", { name: "Take" }).click();
  await expect(page.getByRole("list", { name: "Snapshots of own" })).toContainText("own-1");
  expect(await node.ask("GET", "/v1/volumes/own")).toMatchObject({ tenant: "acme", capacity_bytes: 32 << 20 });
});

test("without a token there is only the question for one", async ({ browser, node }) => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(node.url);
  await page.getByLabel("Token", { exact: true }).fill("fy_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await page.getByLabel("Token", { exact: true }).fill(node.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByLabel("Token", { exact: true })).toBeVisible();
});

test("a smaller namespace is faster and lives longer", async ({ page, node }) => {
  await page.goto(`${node.url}/#/models`);
  const slider = page.getByRole("slider", { name: "Size of the namespace" });
  await slider.focus();
  await page.keyboard.press("End");
  await expect(page.getByText("1.00 × the whole drive").first()).toBeVisible();
  await page.keyboard.press("Home");
  await expect(page.getByText(/^[2-9]\.\d\d × the whole drive/).first()).toBeVisible();
});
