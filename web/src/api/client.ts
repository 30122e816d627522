import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** Why the node did not do what it was asked: its one shape of refusals, or no answer at all. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string | undefined;

  constructor(status: number, body: unknown) {
    const { code, message, field } = (body ?? {}) as Partial<Schemas["ErrorBody"]>;
    super(message ?? `the node answered with status ${status}`);
    this.status = status;
    this.code = code ?? "unknown";
    this.field = field ?? undefined;
  }
}

const TOKEN_KEY = "flashyard-token";

/** The token lives as long as the browser's tab: a page left open elsewhere keeps nothing. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN_KEY),
  set: (value: string) => sessionStorage.setItem(TOKEN_KEY, value),
  clear: () => sessionStorage.removeItem(TOKEN_KEY),
};

export const node = createClient<paths>({ baseUrl: "" });

node.use({
  onRequest({ request }) {
    const held = token.get();
    if (held) request.headers.set("Authorization", `Bearer ${held}`);
    return request;
  },
});

/** The data of an answer; a refusal is thrown. */
export async function answer<T>(
  asked: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  const { data, error, response } = await asked;
  if (!response.ok) throw new Refusal(response.status, error);
  return data as T;
}
