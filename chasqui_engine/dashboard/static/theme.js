// Light or dark, set before anything is drawn: the user's choice, else the surrounding page's, else the system's.
(() => {
  const KEY = "chasqui-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser may keep nothing for us
    }
  }

  function around() {
    if (window.parent === window) return null;
    try {
      const outer = window.parent.document.documentElement;
      if (outer.classList.contains("dark")) return "dark";
      return outer.classList.contains("light") ? "light" : null;
    } catch {
      return null; // another site's page
    }
  }

  function apply() {
    const chosen = stored() || around() || (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = chosen === "dark" ? "dark" : "light";
  }

  window.chasquiToggleTheme = () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // it applies to this page only
    }
    document.documentElement.dataset.theme = next;
    return next;
  };
  system.addEventListener("change", apply);
  apply();
})();
