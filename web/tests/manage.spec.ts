import { expect, Node, test } from "./node";

test("a token is made, shown once and revoked", async ({ page, node }) => {
  await page.goto(`${node.url}/#/tokens`);
  await page.getByRole("button", { name: "Create token" }).click();
  const create = page.getByRole("dialog", { name: "Create token" });
  await create.getByLabel("Name").fill("ci");
  await create.getByLabel("Role").selectOption("operator");
  await create.getByLabel("Days until it expires").fill("90");
  await create.getByRole("button", { name: "Create" }).click();
  const told = page.getByRole("dialog", { name: "Token ci" });
  const secret = await told.getByLabel("secret", { exact: true }).innerText();
  const answer = await fetch(`${node.url}/v1/self`, { headers: { authorization: `Bearer ${secret}` } });
  expect(await answer.json()).toMatchObject({ name: "ci", role: "operator" });
  await told.getByRole("button", { name: "Close" }).click();
  await page.reload();
  const row = page.getByRole("row", { name: /^ci operator/ });
  await expect(row).toBeVisible();
  await expect(page.locator("body")).not.toContainText(secret);

  await page.getByRole("button", { name: "Revoke token ci" }).click();
  const last = page.getByRole("dialog", { name: "Revoke token ci" });
  await expect(last).toContainText("is refused from now on");
  await last.getByLabel("Type ci to confirm").fill("ci");
  await last.getByRole("button", { name: "Revoke" }).click();
  await expect(row).toHaveCount(0);
  await page.goto(`${node.url}/#/audit`);
  await expect(page.getByRole("row", { name: /admin .*DELETE \/v1\/tokens\/ci 204/ })).toBeVisible();
});

test("settings say what a change does, and a wrong one is refused at its field", async ({ page, node }) => {
  await page.goto(`${node.url}/#/settings`);
  await page.getByRole("button", { name: "Change scrub" }).click();
  const scrub = page.getByRole("dialog", { name: "Scrub" });
  await expect(scrub).toContainText("checked as a whole");
  await scrub.getByLabel("Days").fill("100000");
  await scrub.getByRole("button", { name: "Save" }).click();
  await expect(scrub.getByText(/allowed/)).toBeVisible();
  await scrub.getByLabel("Days").fill("14");
  await scrub.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("table", { name: "Scrub" })).toContainText("14 days");
  expect(await node.ask("GET", "/v1/settings")).toMatchObject({ scrub_interval_days: 14 });
});

test("a tenant is granted space and limited", async ({ page, node }) => {
  await page.goto(`${node.url}/#/tenants`);
  await page.getByRole("button", { name: "Grant space" }).click();
  const grant = page.getByRole("dialog", { name: "Grant space" });
  await grant.getByLabel("Tenant").fill("initech");
  await grant.getByLabel("Size").fill("128MiB");
  await grant.getByRole("button", { name: "Grant" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Tenant initech" })).toBeVisible();
  await expect(page.getByRole("table", { name: "Grants of initech" })).toContainText("128 MiB");
  await page.getByLabel("IOPS limit", { exact: true }).fill("4000");
  await page.getByRole("button", { name: "Save limits" }).click();
  await expect(page.getByText("Limits of initech changed")).toBeVisible();
  expect(await node.ask("GET", "/v1/tenants/initech")).toMatchObject({ limits: { total: { iops: 4000 } } });
  await page.getByRole("button", { name: "Revoke the grant in pool" }).click();
  const last = page.getByRole("dialog", { name: /^Revoke the grant/ });
  await last.getByLabel("Type pool to confirm").fill("pool");
  await last.getByRole("button", { name: "Revoke" }).click();
  await expect(page.getByText("it has no grant")).toBeVisible();
});

test("a port's path is changed, and a host gets a secret", async ({ page, node }) => {
  await page.goto(`${node.url}/#/ports`);
  await page.getByRole("button", { name: "Change the path of port" }).first().click();
  const change = page.getByRole("dialog");
  await expect(change).toContainText("move their I/O");
  await change.getByLabel("ANA state").selectOption("non_optimized");
  await change.getByRole("button", { name: "Change" }).click();
  await expect(page.getByRole("table", { name: "Ports" })).toContainText("non optimized");

  await node.ask("PUT", "/v1/hosts/keyed", { nqn: "nqn.2014-08.org.nvmexpress:uuid:0f0e9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa" });
  await page.goto(`${node.url}/#/hosts/keyed`);
  await page.getByRole("button", { name: "Generate secret" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Generate" }).click();
  await expect(page.getByLabel("secret", { exact: true })).toContainText("DHHC-1:");
  await page.getByRole("button", { name: "Close" }).click();
  await expect(page.getByText("DH-HMAC-CHAP: sha256, ffdhe2048, one way")).toBeVisible();
});

test("any object is found by a part of what it is known by", async ({ page, node }) => {
  await node.ask("PUT", "/v1/volumes/ledger", { pool: "pool", size: "16MiB" });
  await node.ask("PUT", "/v1/snapshots/ledger-eve", { volume: "ledger" });
  await node.ask("PUT", "/v1/hosts/ledger-host", { nqn: "nqn.2014-08.org.nvmexpress:uuid:aaaa9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa" });
  await page.goto(`${node.url}/#/`);
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  await page.keyboard.press("/");
  await page.getByLabel("Search for").fill("ledger");
  const found = page.getByRole("list", { name: "Found" });
  await expect(found.getByRole("listitem")).toHaveCount(3);
  await page.getByLabel("Search for").fill("uuid:aaaa9b1e");
  await expect(found.getByRole("listitem")).toHaveText(/^ledger-host host/);
  await page.getByLabel("Search for").fill("pool");
  await expect(found.getByRole("listitem").first()).toHaveText(/^pool pool/);
  await page.getByLabel("Search for").fill("no such thing");
  await expect(page.getByText("Nothing is called that")).toBeVisible();
  await page.getByLabel("Search for").fill("ledger");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Volume ledger" })).toBeVisible();
});

test("events are told apart by severity, object and time", async ({ page, node }) => {
  await node.ask("PUT", "/v1/volumes/eventful", { pool: "pool", size: "16MiB" });
  await page.goto(`${node.url}/#/events`);
  const table = page.getByRole("table", { name: "Events" });
  await expect(table.getByRole("row").nth(1)).toBeVisible();
  const objects = page.getByLabel("Object", { exact: true });
  const one = await objects.locator("option").nth(1).innerText();
  await objects.selectOption(one);
  for (const row of (await table.getByRole("row").all()).slice(1)) await expect(row).toContainText(one);
  await page.getByLabel("Time", { exact: true }).selectOption("Last hour");
  await expect(table.getByRole("row").nth(1)).toBeVisible();
  await page.getByText("Errors", { exact: true }).click();
  await expect(page.getByText("No such events")).toBeVisible();
});

test("a volume is made thick, with blocks of 512 bytes", async ({ page, node }) => {
  await page.goto(`${node.url}/#/volumes`);
  await page.getByRole("button", { name: "Create volume" }).click();
  const create = page.getByRole("dialog", { name: "Create volume" });
  await create.getByLabel("Name").fill("boot");
  await create.getByLabel("Size").fill("16MiB");
  await create.getByLabel("Thick").click();
  await create.getByLabel("Blocks").selectOption("512");
  await create.getByRole("button", { name: "Create" }).click();
  await expect(create).toBeHidden();
  expect(await node.ask("GET", "/v1/volumes/boot")).toMatchObject({ block_bytes: 512, reserved: true });
});

test("a volume is renamed and made thick", async ({ page, node }) => {
  await node.ask("PUT", "/v1/volumes/former", { pool: "pool", size: "16MiB" });
  await page.goto(`${node.url}/#/volumes/former`);
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Make thick" }).click();
  const reserve = page.getByRole("dialog", { name: "Make former thick" });
  await expect(reserve).toContainText("16.0 MiB");
  await reserve.getByRole("button", { name: "Reserve" }).click();
  await expect(page.getByRole("table", { name: "Properties" })).toContainText("thick");
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  const rename = page.getByRole("dialog", { name: "Rename former" });
  await rename.getByLabel("Name").fill("latter");
  await rename.getByRole("button", { name: "Rename" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Volume latter" })).toBeVisible();
});

test("a volume is write protected, and that is lifted", async ({ page, node }) => {
  await node.ask("PUT", "/v1/volumes/golden", { pool: "pool", size: "16MiB" });
  await page.goto(`${node.url}/#/volumes/golden`);
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Write protect", exact: true }).click();
  const protect = page.getByRole("dialog", { name: "Write protect golden" });
  await expect(protect).toContainText("No host writes to it");
  await protect.getByRole("button", { name: "Protect" }).click();
  await expect(page.getByRole("table", { name: "Properties" })).toContainText("by the administrator");
  expect(await node.ask("GET", "/v1/volumes/golden")).toMatchObject({ write_protection: "administrator" });
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Lift write protection" }).click();
  await page.getByRole("dialog", { name: "Let hosts write to golden" }).getByRole("button", { name: "Lift" }).click();
  await expect(page.getByRole("table", { name: "Properties" })).not.toContainText("by the administrator");
  expect(await node.ask("GET", "/v1/volumes/golden")).not.toHaveProperty("write_protection");
});

test("a schedule is made, changed and deleted", async ({ page, node }) => {
  await node.ask("PUT", "/v1/volumes/scheduled", { pool: "pool", size: "16MiB" });
  await page.goto(`${node.url}/#/schedules`);
  await page.getByRole("button", { name: "Create schedule" }).click();
  const create = page.getByRole("dialog", { name: "Create schedule" });
  await create.getByLabel("Name").fill("often");
  await create.getByLabel("Volumes").click();
  await page.getByRole("option", { name: /^scheduled, / }).click();
  for (const period of ["Hourly", "Daily", "Weekly"]) await create.getByLabel(`${period} snapshots`).fill("0");
  await create.getByRole("button", { name: "Create" }).click();
  await expect(create.getByText(/allowed: at least one above/)).toBeVisible();
  await create.getByLabel("Hourly snapshots").fill("3");
  await create.getByRole("button", { name: "Create" }).click();
  const row = page.getByRole("table", { name: "Schedules" }).getByRole("row", { name: /^often/ });
  await expect(row).toContainText("3 hourly");
  // The first snapshot is that of this hour.
  await expect(row).toContainText(String(new Date().getFullYear()));
  await page.getByRole("button", { name: "Change schedule often" }).click();
  const change = page.getByRole("dialog", { name: "Schedule often" });
  await expect(change).toContainText("are deleted");
  await expect(change.getByLabel("Hourly snapshots")).toHaveValue("3");
  await change.getByLabel("Daily snapshots").fill("2");
  await change.getByRole("button", { name: "Save" }).click();
  await expect(row).toContainText("3 hourly, 2 daily");
  expect(await node.ask("GET", "/v1/schedules/often")).toMatchObject({ volumes: ["scheduled"], keep: { hourly: 3, daily: 2, weekly: 0 } });
  await page.getByRole("button", { name: "Delete schedule often" }).click();
  const last = page.getByRole("dialog", { name: "Delete schedule often" });
  await expect(last).toContainText("stay until somebody deletes them");
  await last.getByLabel("Type often to confirm").fill("often");
  await last.getByRole("button", { name: "Delete" }).click();
  await expect(row).toHaveCount(0);
});

test("a volume is replicated to another node and promoted there", async ({ page, node, browser }) => {
  const other = await Node.start([]);
  try {
    await node.ask("PUT", "/v1/volumes/copied", { pool: "pool", size: "16MiB" });
    await page.goto(`${node.url}/#/replications`);
    await page.getByRole("button", { name: "Replicate a volume" }).click();
    const create = page.getByRole("dialog", { name: "Replicate a volume" });
    await create.getByLabel("Volume", { exact: true }).selectOption("copied");
    await create.getByLabel("Other node").fill(other.url);
    await create.getByLabel("Token of that node").fill(other.token);
    await create.getByLabel("Pool of that node").fill("pool");
    await create.getByLabel("Every").fill("often");
    await create.getByRole("button", { name: "Replicate" }).click();
    await expect(create.getByText(/allowed: a number and a unit/)).toBeVisible();
    await create.getByLabel("Every").fill("8days");
    await create.getByRole("button", { name: "Replicate" }).click();
    await expect(create.getByText(/allowed: 1 to 604800/)).toBeVisible();
    await create.getByLabel("Every").fill("1s");
    await create.getByRole("button", { name: "Replicate" }).click();
    const row = page.getByRole("table", { name: "Replications" }).getByRole("row", { name: /^copied/ });
    await expect(row).toContainText(/copied|running/i);
    await expect(row).toContainText(/\ds/);
    await page.getByRole("button", { name: "Change replication copied" }).click();
    const change = page.getByRole("dialog", { name: "Replication copied" });
    await expect(change.getByLabel("Every")).toHaveValue("1s");
    await change.getByLabel("Bandwidth limit").fill("50MB");
    await change.getByRole("button", { name: "Save" }).click();
    await expect(change).toHaveCount(0);
    expect(await node.ask("GET", "/v1/replications/copied")).toMatchObject({ every_seconds: 1, bandwidth: 50_000_000, pool: "pool" });
    await page.goto(`${node.url}/#/volumes/copied`);
    await expect(page.getByRole("table", { name: "Properties" })).toContainText(other.url);

    const there = await (await browser.newContext()).newPage();
    await there.addInitScript((value) => sessionStorage.setItem("flashyard-token", value), other.token);
    await there.goto(`${other.url}/#/volumes/copied`);
    await expect(there.getByRole("table", { name: "Properties" })).toContainText("Replica of");
    await there.getByRole("button", { name: "Promote" }).click();
    const promote = there.getByRole("dialog", { name: "Promote replica copied" });
    await promote.getByLabel("Type copied to confirm").fill("copied");
    await promote.getByRole("button", { name: "Promote" }).click();
    await expect(there.getByText("Volume copied is a replica no more")).toBeVisible();
    await expect(there.getByRole("table", { name: "Properties" })).not.toContainText("Replica of");

    await page.goto(`${node.url}/#/replications`);
    await expect(row).toContainText("failed");
    await page.getByRole("button", { name: "Remove replication copied" }).click();
    const last = page.getByRole("dialog", { name: "Remove replication copied" });
    await last.getByLabel("Type copied to confirm").fill("copied");
    await last.getByRole("button", { name: "Remove" }).click();
    await expect(row).toHaveCount(0);
  } finally {
    await other.stop();
  }
});
