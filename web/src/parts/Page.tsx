import { Alert, Center, Group, Loader, Stack, Text, Title } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useEffect } from "react";
import { Refusal } from "../api/client";

interface PageProps {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
}

/** A page's heading, what can be done there, and its body. */
export function Page({ title, actions, children }: PageProps) {
  useEffect(() => { document.title = `${title} · Flashyard`; }, [title]);
  return (
    <Stack gap="md">
      <Group justify="space-between">
        <Title order={1} size="h2">{title}</Title>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}

interface LoadedProps<T> {
  of: UseQueryResult<T>;
  children: (data: T) => ReactNode;
}

/** What a query found; while it has nothing, that it is looking or why it found nothing. What was
 * found stays on the screen when a later refresh fails, with a note that it is old. */
export function Loaded<T>({ of, children }: LoadedProps<T>) {
  if (of.data === undefined) {
    if (of.error) return <Failure error={of.error} />;
    return <Center p="xl"><Loader role="status" aria-label="Loading" /></Center>;
  }
  return (
    <>
      {of.error && <Failure error={of.error} old />}
      {children(of.data)}
    </>
  );
}

export function Failure({ error, old }: { error: Error; old?: boolean }) {
  const reached = error instanceof Refusal;
  return (
    <Alert color="red" role="alert" title={reached ? "The node refused" : "The node does not answer"}>
      {reached ? error.message : `${error.message}. This page tries again by itself.`}
      {old && " The data below is older."}
    </Alert>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Center p="xl">
      <Stack gap="xs" align="center">
        <Text fw={600}>{title}</Text>
        {children && <Text c="dimmed" ta="center" maw={480}>{children}</Text>}
      </Stack>
    </Center>
  );
}
