const rows = document.querySelectorAll('tr.ran'), heads = document.querySelectorAll('th[data-column]');
function color(column) {
  heads.forEach(head => head.classList.toggle('by', head.dataset.column == column));
  rows.forEach(row => {
    const heat = Number(row.dataset.heat.split(' ')[column]);
    row.querySelector('.code').style.background = heat > 0 ? `rgba(var(--heat), ${0.08 + 0.5 * Math.sqrt(heat)})` : '';
  });
}
heads.forEach(head => head.addEventListener('click', () => color(head.dataset.column)));
color(0);
