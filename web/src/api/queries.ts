import { useQuery } from "@tanstack/react-query";
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

export function useStatus() {
  return useQuery({ queryKey: ["status"], queryFn: () => answer(node.GET("/v1/status")) });
}

export function useMetrics(interval: number) {
  return useQuery({
    queryKey: ["metrics", interval],
    queryFn: () => answer(node.GET("/v1/metrics", { params: { query: { interval } } })),
    refetchInterval: interval * 2_000,
    placeholderData: (previous) => previous,
  });
}

export function useVolumes() {
  return useQuery({
    queryKey: ["volumes"],
    queryFn: () => whole((query) => answer(node.GET("/v1/volumes", { params: { query } }))),
  });
}

export function useSnapshots() {
  return useQuery({
    queryKey: ["snapshots"],
    queryFn: () => whole((query) => answer(node.GET("/v1/snapshots", { params: { query } }))),
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
