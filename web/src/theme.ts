import { createTheme, type CSSVariablesResolver } from "@mantine/core";

/** Calm and legible: one accent, larger hit areas on phones, figures that line up. */
export const theme = createTheme({
  primaryColor: "cyan",
  primaryShade: 9,
  autoContrast: true,
  defaultRadius: "sm",
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
  fontFamilyMonospace: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
});

/** Text on tints, dark enough or light enough to be read (WCAG AA: 4.5 to 1). */
const ON_TINTS: Record<string, [light: string, dark: string]> = {
  green: ["#1a5e2a", "#8ce99a"],
  yellow: ["#7a4100", "#ffe066"],
  red: ["#a51111", "#ffb3b3"],
  blue: ["#11508f", "#a5d8ff"],
  gray: ["#3d444b", "#dee2e6"],
  cyan: ["#0a5a69", "#99e9f2"],
};

export const variables: CSSVariablesResolver = () => {
  const of = (which: 0 | 1) => Object.fromEntries(
    Object.entries(ON_TINTS).map(([name, shades]) => [`--mantine-color-${name}-light-color`, shades[which]]),
  );
  return {
    variables: {},
    light: { ...of(0), "--mantine-color-dimmed": "#545b62", "--mantine-color-anchor": "#0a5a69", "--mantine-color-placeholder": "#6a7178", "--mantine-color-error": "#a51111" },
    dark: { ...of(1), "--mantine-color-dimmed": "#b0b7be", "--mantine-color-anchor": "#66d9e8", "--mantine-color-placeholder": "#a0a7ae", "--mantine-color-error": "#ffa8a8" },
  };
};
