import "@mantine/core/styles.css";
import "@mantine/charts/styles.css";
import "@mantine/notifications/styles.css";
import "./style.css";
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { Refusal } from "./api/client";
import { theme, variables } from "./theme";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      refetchInterval: 5_000,
      // A refusal stays one however often it is asked for; only silence is worth another try.
      retry: (count, error) => !(error instanceof Refusal) && count < 1,
    },
  },
});

const root = document.getElementById("root");
if (!root) throw new Error("the page has no place to show itself");
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto">
      <QueryClientProvider client={queries}>
        <Notifications position="bottom-right" />
        <App />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
