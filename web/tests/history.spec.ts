import { expect, test } from "./node";

test("what hosts did is kept, and drawn for each volume, pool and drive", async ({ page, node }) => {
  await node.ask("PUT", "/v1/volumes/kept", { pool: "pool", size: "32MiB", hosts: ["any"] });
  await node.load("kept", 22);
  const { objects } = (await node.ask("GET", "/v1/history?kind=volume&names=kept&seconds=60")) as {
    objects: { series: { metric: string; values: (number | null)[] }[] }[];
  };
  const reads = objects[0]?.series.find(({ metric }) => metric === "read_iops")?.values ?? [];
  expect(Math.max(...reads.map((value) => value ?? 0))).toBeGreaterThan(100);

  await page.goto(`${node.url}/#/volumes/kept`);
  await expect(page.getByRole("img", { name: "p99 latency" })).toBeVisible();
  await expect(page.getByRole("img", { name: "IOPS" }).locator(".recharts-line-curve").first()).toHaveAttribute("d", /L/);
  await page.getByText("30 days").click();
  await expect(page.getByText("Nothing is recorded for this span yet.")).toBeVisible();
  for (const path of ["/pools/pool", "/drives/d0"]) {
    await page.goto(`${node.url}/#${path}`);
    await expect(page.getByRole("img", { name: "Throughput" })).toBeVisible();
  }
});

test("a tenant sees what its own volumes did, and no other's", async ({ node }) => {
  await node.ask("PUT", "/v1/tenants/hist/grants/pool", { size: "64MiB" });
  await node.ask("PUT", "/v1/volumes/theirs", { pool: "pool", size: "16MiB", tenant: "hist" });
  await node.ask("PUT", "/v1/volumes/others", { pool: "pool", size: "16MiB" });
  const { secret } = (await node.ask("PUT", "/v1/tokens/hist", { role: "viewer", tenant: "hist" })) as { secret: string };
  const status = async (query: string) => {
    const answer = await fetch(`${node.url}/v1/history?${query}`, { headers: { authorization: `Bearer ${secret}` } });
    return answer.status;
  };
  expect(await status("kind=volume&names=theirs")).toBe(200);
  expect(await status("kind=volume&names=theirs,others")).toBe(404);
  expect(await status("kind=node")).toBe(403);
  expect(await status("kind=pool&names=pool")).toBe(403);
});
