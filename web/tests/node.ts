import { test as base } from "@playwright/test";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The program under test. */
export function program(): string {
  const target = process.env.CARGO_TARGET_DIR ?? "../target";
  return process.env.FLASHYARD ?? join(target, "debug", "flashyard");
}

/** A real node in a process of its own, and what it takes to ask it something. */
export class Node {
  private constructor(
    readonly url: string,
    readonly token: string,
    private readonly directory: string,
    private readonly process: ChildProcess,
  ) {}

  static async start(extra: string[]): Promise<Node> {
    const directory = mkdtempSync(join(tmpdir(), "flashyard-web-"));
    const ports = ["--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"];
    const child = spawn(program(), ["serve", "--dev", directory, ...ports, ...extra], { stdio: ["ignore", "ignore", "inherit"] });
    const endpoints = join(directory, "endpoints.json");
    for (let waited_ms = 0; !existsSync(endpoints); waited_ms += 50) {
      if (child.exitCode !== null) throw new Error(`the node ended with ${child.exitCode}`);
      if (waited_ms > 60_000) throw new Error("the node does not start");
      await new Promise((done) => setTimeout(done, 50));
    }
    const { api } = JSON.parse(readFileSync(endpoints, "utf8")) as { api: string };
    const held = join(directory, "admin.token");
    const token = existsSync(held) ? readFileSync(held, "utf8").trim() : "";
    return new Node(api, token, directory, child);
  }

  /** Asks the REST API; a refusal is an error. */
  async ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const answer = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  /**
   * Reads blocks of a volume for a while, as a host does, or what `how` says in words of `perf`.
   * Without `seconds` it goes over the volume once.
   */
  async load(volume: string, seconds?: number, how = ["--rate-iops", "500"]): Promise<void> {
    const { nqn } = (await this.ask("GET", `/v1/volumes/${volume}`)) as { nqn: string };
    const { nvme_addresses } = (await this.ask("GET", "/v1/status")) as { nvme_addresses: string[] };
    const target = `tcp://${nvme_addresses[0]}/${nqn}`;
    const runtime = seconds === undefined ? [] : ["--runtime", `${seconds}s`];
    const load = spawn(program(), ["perf", target, ...runtime, ...how], { stdio: "ignore" });
    const code = await new Promise((done) => load.once("exit", done));
    if (code !== 0) throw new Error(`the load ended with ${code}`);
  }

  async stop(): Promise<void> {
    const ended = new Promise((done) => this.process.once("exit", done));
    this.process.kill("SIGTERM");
    await ended;
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Tests of one file share a node; it is as `serve --dev` makes it. */
export const test = base.extend<{ signedIn: void }, { extra: string[]; node: Node }>({
  /** Arguments of the node, which a file may choose by `test.use`. */
  extra: [[], { scope: "worker", option: true }],
  node: [
    async ({ extra }, use) => {
      const node = await Node.start(extra);
      await use(node);
      await node.stop();
    },
    { scope: "worker" },
  ],
  signedIn: [
    async ({ page, node }, use) => {
      const token = node.token;
      await page.addInitScript((value) => sessionStorage.setItem("flashyard-token", value), token);
      await use();
    },
    { auto: true },
  ],
});

export { expect } from "@playwright/test";
