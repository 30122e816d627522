import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run develop` shows the page of a node that listens where NODE_URL says.
const node = process.env.NODE_URL ?? "http://127.0.0.1:4400";

export default defineConfig({
  plugins: [react()],
  base: "./",
  build: { chunkSizeWarningLimit: 1500, sourcemap: false },
  server: { proxy: { "/v1": node, "/openapi.json": node } },
});
