"""The page's style."""

STYLE = """
:root{color-scheme:light dark;--bg:#f7f7f5;--card:#fff;--ink:#1d1f23;--soft:#666b74;--rule:#e3e3df;
--good:#2e8b57;--bad:#c8453b;--warn:#d08b1d;--c1:#2f6fb2;--c2:#8a5cc2;--c3:#c2527d}
@media(prefers-color-scheme:dark){:root{--bg:#15171b;--card:#1d2026;--ink:#e8e8e4;--soft:#9aa0aa;--rule:#31353d;
--good:#5cc08a;--bad:#ee7b70;--warn:#e5b04f;--c1:#6ba6e6;--c2:#b491ea;--c3:#ea85ab}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main,footer{max-width:1180px;margin:0 auto;padding:0 20px}
header{padding-top:28px}
h1{font-size:24px;margin:0}
header p{margin:4px 0;color:var(--soft)}
.badge{display:inline-block;padding:2px 10px;border-radius:12px;border:1px solid currentColor;font-size:13px}
p.good,.good{color:var(--good)}
p.bad,.bad{color:var(--bad)}
p.warn,.warn{color:var(--warn)}
section{margin:26px 0 40px}
h2{font-size:19px;margin:0 0 12px;overflow-wrap:anywhere}
h3{font-size:14px;margin:0 0 8px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.tile,figure,.tables>div{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 14px;
margin:0}
.tile span{color:var(--soft);font-size:13px}
.tile strong{display:block;font-size:24px;font-variant-numeric:tabular-nums}
.tile em{display:block;font-style:normal;font-size:12px;line-height:1.35;color:var(--soft)}
.tile em.good{color:var(--good)}
.tile em.bad{color:var(--bad)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));gap:12px;margin-top:12px}
figcaption{display:flex;flex-wrap:wrap;gap:14px;font-size:13px;margin-bottom:6px}
figcaption b{margin-right:auto;font-size:14px}
figcaption span{color:var(--soft)}
figcaption i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:5px}
svg{width:100%;height:auto;display:block}
.grid{stroke:var(--rule)}
.tick{fill:var(--soft);font-size:11px}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.tables{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:12px;margin-top:12px}
.tables>div{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{color:var(--soft);font-weight:500;text-align:right;padding:3px 6px}
td{text-align:right;padding:4px 6px;border-top:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}
.wide{grid-column:1/-1}
.empty{color:var(--soft)}
footer{color:var(--soft);font-size:12px;padding-bottom:30px}
"""
