import {
  ActionIcon, Anchor, AppShell, Burger, Button, Group, NavLink, Text, useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { type ComponentType, useState } from "react";
import { Link, Route, Router, Switch } from "wouter";
import { useHashLocation } from "wouter/use-hash-location";
import { Refusal, token } from "./api/client";
import { useSelf, useStatus } from "./api/queries";
import { Audit } from "./pages/Audit";
import { DriveDetail } from "./pages/DriveDetail";
import { Drives } from "./pages/Drives";
import { Events } from "./pages/Events";
import { Explorer } from "./pages/Explorer";
import { HostDetail } from "./pages/HostDetail";
import { Hosts } from "./pages/Hosts";
import { Jobs } from "./pages/Jobs";
import { Login } from "./pages/Login";
import { Overview } from "./pages/Overview";
import { PoolDetail } from "./pages/PoolDetail";
import { Pools } from "./pages/Pools";
import { Ports } from "./pages/Ports";
import { Replications } from "./pages/Replications";
import { Schedules } from "./pages/Schedules";
import { Sessions } from "./pages/Sessions";
import { Settings } from "./pages/Settings";
import { Snapshots } from "./pages/Snapshots";
import { TenantDetail } from "./pages/TenantDetail";
import { Tenants } from "./pages/Tenants";
import { Tokens } from "./pages/Tokens";
import { VolumeDetail } from "./pages/VolumeDetail";
import { Volumes } from "./pages/Volumes";
import { Empty } from "./parts/Page";
import { Search } from "./parts/Search";

interface Place {
  path: string;
  label: string;
  page: ComponentType;
  /** Who has no use for it: tokens of tenants, or all but admins. */
  closed?: "tenants" | "others";
}

const PAGES: Place[] = [
  { path: "/", label: "Overview", page: Overview },
  { path: "/volumes", label: "Volumes", page: Volumes },
  { path: "/snapshots", label: "Snapshots", page: Snapshots },
  { path: "/schedules", label: "Schedules", page: Schedules },
  { path: "/replications", label: "Replications", page: Replications, closed: "tenants" },
  { path: "/pools", label: "Pools", page: Pools, closed: "tenants" },
  { path: "/drives", label: "Drives", page: Drives, closed: "tenants" },
  { path: "/hosts", label: "Hosts", page: Hosts },
  { path: "/sessions", label: "Sessions", page: Sessions },
  { path: "/ports", label: "Ports", page: Ports, closed: "tenants" },
  { path: "/jobs", label: "Jobs", page: Jobs, closed: "tenants" },
  { path: "/events", label: "Events", page: Events, closed: "tenants" },
  { path: "/tenants", label: "Tenants", page: Tenants, closed: "tenants" },
  { path: "/tokens", label: "Tokens", page: Tokens, closed: "others" },
  { path: "/audit", label: "Audit log", page: Audit, closed: "others" },
  { path: "/settings", label: "Settings", page: Settings, closed: "tenants" },
  { path: "/models", label: "Drive models", page: Explorer, closed: "tenants" },
];

const DETAILS: Omit<Place, "label">[] = [
  { path: "/volumes/:name", page: VolumeDetail },
  { path: "/pools/:name", page: PoolDetail },
  { path: "/drives/:name", page: DriveDetail },
  { path: "/hosts/:name", page: HostDetail },
  { path: "/tenants/:name", page: TenantDetail },
];

/** The frame of every page; in its place the question for a token while the node wants one. */
export function App() {
  const status = useStatus();
  const queries = useQueryClient();
  const [, setTokens] = useState(0);
  if (status.error instanceof Refusal && status.error.status === 401) {
    const refused = token.get() ? status.error.message : undefined;
    const enter = (value: string) => {
      token.set(value);
      setTokens((count) => count + 1);
      void queries.resetQueries();
    };
    return <Login refused={refused} enter={enter} />;
  }
  const leave = token.get()
    ? () => { token.clear(); void queries.resetQueries(); }
    : undefined;
  return <Router hook={useHashLocation}><Frame name={status.data?.name} leave={leave} /></Router>;
}

function Frame({ name, leave }: { name: string | undefined; leave: (() => void) | undefined }) {
  const [opened, { toggle, close }] = useDisclosure();
  const [location] = useHashLocation();
  const self = useSelf();
  const isOpen = ({ closed }: Place) => {
    if (!closed || !self.data) return true;
    return !self.data.tenant && (closed === "tenants" || self.data.role === "admin");
  };
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 200, breakpoint: "sm", collapsed: { mobile: !opened } }}
      padding="md"
    >
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Menu" aria-expanded={opened} />
            <Anchor component={Link} href="/" fw={700} underline="never" c="inherit">Flashyard</Anchor>
            {name && <Text c="dimmed" truncate visibleFrom="xs">{name}</Text>}
          </Group>
          <Group gap="xs" wrap="nowrap">
            <Search />
            <ColourScheme />
            {leave && <Button variant="default" size="xs" px="sm" onClick={leave}>Sign out</Button>}
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" component="nav" aria-label="Pages" style={{ overflowY: "auto" }}>
        {PAGES.filter(isOpen).map(({ path, label }) => (
          <NavLink
            key={path}
            component={Link}
            href={path}
            label={label}
            py={6}
            active={path === "/" ? location === "/" : location.startsWith(path)}
            aria-current={location === path ? "page" : undefined}
            onClick={close}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main>
        <Switch>
          {[...PAGES, ...DETAILS].map(({ path, page }) => <Route key={path} path={path} component={page} />)}
          <Route><Empty title="There is no such page">Choose one from the menu.</Empty></Route>
        </Switch>
      </AppShell.Main>
    </AppShell>
  );
}

function ColourScheme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const next = { auto: "light", light: "dark", dark: "auto" } as const;
  const sign = { auto: "◐", light: "☀", dark: "☾" } as const;
  return (
    <ActionIcon
      variant="default"
      size="md"
      onClick={() => setColorScheme(next[colorScheme])}
      aria-label={`Colours: ${colorScheme}; switch to ${next[colorScheme]}`}
    >
      {sign[colorScheme]}
    </ActionIcon>
  );
}
