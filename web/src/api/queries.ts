import { type Query, useQuery } from "@tanstack/react-query";
import { answer, node, type Schemas } from "./client";

/** One hook a resource; every page that shows it shares one copy. */

interface Part<T> {
  items: T[];
  next?: string | null;
}

/** All of a collection: part after part, until no more follow. */
async function whole<T>(ask: (query: { after?: string }) => Promise<Part<T>>): Promise<T[]> {
  const items: T[] = [];
  let after: string | undefined;
  do {
    const part = await ask(after === undefined ? {} : { after });
    items.push(...part.items);
    after = part.next ?? undefined;
  } while (after !== undefined);
  return items;
}

/** Milliseconds until a list is asked for again: longer where it is long. */
function listInterval<T>(query: Query<T[]>): number {
  return (query.state.data?.length ?? 0) > 1000 ? 30_000 : 5_000;
}

/** The node at a glance, with its addresses in the order in which they are paths to a volume. */
export function useStatus(volume?: string) {
  return useQuery({
    queryKey: ["status", volume],
    queryFn: () => answer(node.GET("/v1/status", { params: { query: { volume } } })),
  });
}

export function useMetrics(interval: number) {
  return useQuery({
    queryKey: ["metrics", interval],
    queryFn: () => answer(node.GET("/v1/metrics", { params: { query: { interval } } })),
    refetchInterval: interval * 2_000,
    placeholderData: (previous) => previous,
  });
}

/** What every volume does now, by name. */
export function useLoads() {
  return useQuery({
    queryKey: ["loads"],
    queryFn: async () => {
      const { volumes } = await answer(node.GET("/v1/metrics", { params: { query: { interval: 10 } } }));
      return new Map(volumes.map((volume) => [volume.name, volume]));
    },
    refetchInterval: (query) => (query.state.data?.size ?? 0) > 1000 ? 10_000 : 5_000,
  });
}

type HistoryQuery = Pick<Schemas["History"], "step_seconds"> & { kind: Schemas["HistoryKind"]; names: string[]; seconds: number };

/** What objects of a kind did, `seconds` back; nothing is asked without names, but of the node. */
export function useHistory({ kind, names, step_seconds: step, seconds }: HistoryQuery) {
  const query = { kind, step, seconds, ...(names.length > 0 ? { names: names.join(",") } : {}) };
  return useQuery({
    queryKey: ["history", query],
    queryFn: () => answer(node.GET("/v1/history", { params: { query } })),
    enabled: names.length > 0 || kind === "node",
    refetchInterval: Math.min(step, 60) * 1_000,
    placeholderData: (previous) => previous,
  });
}

export function useVolumes() {
  return useQuery({
    queryKey: ["volumes"],
    queryFn: () => whole((query) => answer(node.GET("/v1/volumes", { params: { query } }))),
    refetchInterval: listInterval,
  });
}

export function useVolume(name: string) {
  return useQuery({
    queryKey: ["volumes", name],
    queryFn: () => answer(node.GET("/v1/volumes/{name}", { params: { path: { name } } })),
  });
}

export function useSelf() {
  return useQuery({ queryKey: ["self"], queryFn: () => answer(node.GET("/v1/self")), refetchInterval: false });
}

export function useTenants() {
  return useQuery({
    queryKey: ["tenants"],
    queryFn: () => whole((query) => answer(node.GET("/v1/tenants", { params: { query } }))),
  });
}

export function useTenant(name: string) {
  return useQuery({
    queryKey: ["tenants", name],
    queryFn: () => answer(node.GET("/v1/tenants/{name}", { params: { path: { name } } })),
  });
}

export function useTokens() {
  return useQuery({
    queryKey: ["tokens"],
    queryFn: () => whole((query) => answer(node.GET("/v1/tokens", { params: { query } }))),
  });
}

export function useAudit() {
  return useQuery({
    queryKey: ["audit"],
    queryFn: () => whole((query) => answer(node.GET("/v1/audit", { params: { query } }))),
    refetchInterval: listInterval,
  });
}

export function useSettings() {
  return useQuery({ queryKey: ["settings"], queryFn: () => answer(node.GET("/v1/settings")) });
}

export function usePorts() {
  return useQuery({
    queryKey: ["ports"],
    queryFn: () => whole((query) => answer(node.GET("/v1/ports", { params: { query } }))),
  });
}

/** Whose the space of a pool is. The node counts it in a pass over the pool's maps, so it is asked
 * when somebody wants to know. */
export function useUsage(pool: string, wanted: boolean) {
  return useQuery({
    queryKey: ["usage", pool],
    queryFn: () => answer(node.GET("/v1/pools/{name}/usage", { params: { path: { name: pool } } })),
    enabled: wanted,
    refetchInterval: false,
    staleTime: Infinity,
  });
}

export function useImportable() {
  return useQuery({
    queryKey: ["importable"],
    queryFn: () => whole((query) => answer(node.GET("/v1/importable-pools", { params: { query } }))),
    refetchInterval: 60_000,
  });
}

export function useCarried() {
  return useQuery({
    queryKey: ["carried"],
    queryFn: () => whole((query) => answer(node.GET("/v1/carried-labels", { params: { query } }))),
    refetchInterval: 60_000,
  });
}

export function useNamespaces(drive: string, wanted: boolean) {
  return useQuery({
    queryKey: ["drives", drive, "namespaces"],
    queryFn: () => answer(node.GET("/v1/drives/{name}/namespaces", { params: { path: { name: drive } } })),
    enabled: wanted,
  });
}

export function useSnapshots() {
  return useQuery({
    queryKey: ["snapshots"],
    queryFn: () => whole((query) => answer(node.GET("/v1/snapshots", { params: { query } }))),
    refetchInterval: listInterval,
  });
}

export function usePools() {
  return useQuery({
    queryKey: ["pools"],
    queryFn: () => whole((query) => answer(node.GET("/v1/pools", { params: { query } }))),
  });
}

/** Pools in which whoever is signed in may make volumes, and what is left there: of the pool, or of
 * what a tenant was granted. */
export function useRoom() {
  return useQuery({
    queryKey: ["room"],
    queryFn: async () => {
      const { tenant: name } = await answer(node.GET("/v1/self"));
      if (!name) {
        const pools = await whole((query) => answer(node.GET("/v1/pools", { params: { query } })));
        return pools.map(({ name, usable_bytes, used_bytes, reserved_bytes = 0 }) => (
          { name, left: Math.max(0, usable_bytes - used_bytes - reserved_bytes), granted: false }
        ));
      }
      const tenant = await answer(node.GET("/v1/tenants/{name}", { params: { path: { name } } }));
      return (tenant.grants ?? []).map(({ pool, grant, used }) => (
        { name: pool, left: Math.max(0, Number(grant.size) - (used?.bytes ?? 0)), granted: true }
      ));
    },
  });
}

export function useSchedules() {
  return useQuery({
    queryKey: ["schedules"],
    queryFn: () => whole((query) => answer(node.GET("/v1/schedules", { params: { query } }))),
  });
}

/** Nothing is asked with a token of a tenant, which may not know of other nodes. */
export function useReplications() {
  const self = useSelf();
  return useQuery({
    queryKey: ["replications"],
    queryFn: () => whole((query) => answer(node.GET("/v1/replications", { params: { query } }))),
    enabled: self.data !== undefined && !self.data.tenant,
  });
}

export function useJobs() {
  return useQuery({
    queryKey: ["jobs"],
    queryFn: () => whole((query) => answer(node.GET("/v1/jobs", { params: { query } }))),
  });
}

export function useDrives() {
  return useQuery({
    queryKey: ["drives"],
    queryFn: () => whole((query) => answer(node.GET("/v1/drives", { params: { query } }))),
  });
}

export function useDriveHealth(name: string) {
  return useQuery({
    queryKey: ["drives", name, "health"],
    queryFn: () => answer(node.GET("/v1/drives/{name}/health", { params: { path: { name } } })),
  });
}

export function useHosts() {
  return useQuery({
    queryKey: ["hosts"],
    queryFn: () => whole((query) => answer(node.GET("/v1/hosts", { params: { query } }))),
  });
}

export function useSessions() {
  return useQuery({
    queryKey: ["sessions"],
    queryFn: () => whole((query) => answer(node.GET("/v1/sessions", { params: { query } }))),
  });
}

export function useEvents() {
  return useQuery({
    queryKey: ["events"],
    queryFn: () => whole((query) => answer(node.GET("/v1/events", { params: { query } }))),
  });
}

export function useProfiles() {
  return useQuery({
    queryKey: ["profiles"],
    queryFn: () => whole((query) => answer(node.GET("/v1/profiles", { params: { query } }))),
    refetchInterval: false,
  });
}

export function useCurve(name: string, rw: Schemas["AccessPattern"], outstanding: number) {
  const query = { rw, outstanding };
  return useQuery({
    queryKey: ["profiles", name, query],
    queryFn: () => answer(node.GET("/v1/profiles/{name}/curve", { params: { path: { name }, query } })),
    refetchInterval: false,
    placeholderData: (previous) => previous,
  });
}
