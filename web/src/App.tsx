import {
  ActionIcon, Anchor, AppShell, Burger, Button, Group, NavLink, Text, useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { type ComponentType, useState } from "react";
import { Link, Route, Router, Switch } from "wouter";
import { useHashLocation } from "wouter/use-hash-location";
import { Refusal, token } from "./api/client";
import { useStatus } from "./api/queries";
import { Drives } from "./pages/Drives";
import { Events } from "./pages/Events";
import { Explorer } from "./pages/Explorer";
import { Hosts } from "./pages/Hosts";
import { Login } from "./pages/Login";
import { Overview } from "./pages/Overview";
import { Pools } from "./pages/Pools";
import { Sessions } from "./pages/Sessions";
import { VolumeDetail } from "./pages/VolumeDetail";
import { Volumes } from "./pages/Volumes";
import { Empty } from "./parts/Page";

const PAGES: { path: string; title: string; page: ComponentType }[] = [
  { path: "/", title: "Overview", page: Overview },
  { path: "/volumes", title: "Volumes", page: Volumes },
  { path: "/pools", title: "Pools", page: Pools },
  { path: "/drives", title: "Drives", page: Drives },
  { path: "/hosts", title: "Hosts", page: Hosts },
  { path: "/sessions", title: "Sessions", page: Sessions },
  { path: "/events", title: "Events", page: Events },
  { path: "/models", title: "Drive models", page: Explorer },
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
            {name && <Text c="dimmed" truncate>{name}</Text>}
          </Group>
          <Group gap="xs" wrap="nowrap">
            <ColourScheme />
            {leave && <Button variant="default" size="xs" onClick={leave}>Sign out</Button>}
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" component="nav" aria-label="Pages">
        {PAGES.map(({ path, title }) => (
          <NavLink
            key={path}
            component={Link}
            href={path}
            label={title}
            active={path === "/" ? location === "/" : location.startsWith(path)}
            aria-current={location === path ? "page" : undefined}
            onClick={close}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main>
        <Switch>
          {PAGES.map(({ path, page }) => <Route key={path} path={path} component={page} />)}
          <Route path="/volumes/:name" component={VolumeDetail} />
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
