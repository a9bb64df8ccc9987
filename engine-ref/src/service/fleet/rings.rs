//! Rings of waiting, as a pure function: one shortest for each set of agents that all wait for each other, by whatever way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use beepgrid::PrincipalId;

type Edges = BTreeMap<PrincipalId, BTreeSet<PrincipalId>>;

/// For each strongly connected component one shortest cycle, from its smallest id on; components by that id.
pub(super) fn shortest(edges: &Edges) -> Vec<Vec<PrincipalId>> {
    let graph = Graph::new(edges);
    let mut cycles: Vec<Vec<usize>> = graph.components().iter().filter_map(|component| graph.shortest_in(component)).collect();
    cycles.sort_unstable();
    let id = |at: usize| graph.ids.get(at).map(|id| (*id).clone());
    cycles.into_iter().map(|cycle| cycle.into_iter().filter_map(id).collect()).collect()
}

/// The same graph over numbers, in the order of ids.
struct Graph<'e> {
    ids: Vec<&'e PrincipalId>,
    next: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
}

impl<'e> Graph<'e> {
    fn new(edges: &'e Edges) -> Self {
        let ids: BTreeSet<&PrincipalId> = edges.iter().flat_map(|(from, to)| std::iter::once(from).chain(to)).collect();
        let ids: Vec<&PrincipalId> = ids.into_iter().collect();
        let number = |id: &PrincipalId| ids.binary_search(&id).ok();
        let mut next = vec![Vec::new(); ids.len()];
        let mut before = vec![Vec::new(); ids.len()];
        for (from, targets) in edges {
            for to in targets {
                let (Some(from), Some(to)) = (number(from), number(to)) else { continue };
                if let (Some(next), Some(before)) = (next.get_mut(from), before.get_mut(to)) {
                    next.push(to);
                    before.push(from);
                }
            }
        }
        Self { ids, next, before }
    }

    /// Kosaraju: finish order forwards, then trees backwards. Each component in ascending order.
    fn components(&self) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.ids.len()];
        let mut finished = Vec::with_capacity(self.ids.len());
        for start in 0..self.ids.len() {
            finish(&self.next, start, &mut seen, &mut finished);
        }
        let mut seen = vec![false; self.ids.len()];
        let mut components = Vec::new();
        for start in finished.into_iter().rev() {
            let mut component = Vec::new();
            finish(&self.before, start, &mut seen, &mut component);
            component.sort_unstable();
            if !component.is_empty() {
                components.push(component);
            }
        }
        components
    }

    /// The shortest cycle among these; of equally short ones the one whose smallest member comes first.
    fn shortest_in(&self, component: &[usize]) -> Option<Vec<usize>> {
        let mut best: Option<Vec<usize>> = None;
        for &start in component {
            let most = best.as_ref().map_or(usize::MAX, Vec::len);
            if most <= 2 {
                break;
            }
            // Every cycle is found from its smallest member.
            if let Some(cycle) = self.back_to(start, component, most) {
                best = Some(cycle);
            }
        }
        best
    }

    /// The shortest way from `start` back to it over members that are not smaller, with fewer than `most` members.
    fn back_to(&self, start: usize, component: &[usize], most: usize) -> Option<Vec<usize>> {
        let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([(start, 1)]);
        while let Some((at, members)) = queue.pop_front() {
            if members >= most {
                return None;
            }
            for &to in self.next.get(at)? {
                if to == start {
                    return Some(path(start, at, &came_from));
                }
                if to > start && component.binary_search(&to).is_ok() && !came_from.contains_key(&to) {
                    came_from.insert(to, at);
                    queue.push_back((to, members + 1));
                }
            }
        }
        None
    }
}

fn path(start: usize, end: usize, came_from: &BTreeMap<usize, usize>) -> Vec<usize> {
    let mut path = vec![end];
    let mut at = end;
    while at != start {
        let Some(previous) = came_from.get(&at) else { break };
        at = *previous;
        path.push(at);
    }
    path.reverse();
    path
}

/// Depth first from `start` over what was not seen, without recursion; nodes are added when all behind them are.
fn finish(next: &[Vec<usize>], start: usize, seen: &mut [bool], finished: &mut Vec<usize>) {
    let mut visit = |at: usize| seen.get_mut(at).is_some_and(|seen| !std::mem::replace(seen, true));
    if !visit(start) {
        return;
    }
    let mut stack = vec![(start, 0)];
    while let Some((at, done)) = stack.last_mut() {
        match next.get(*at).and_then(|targets| targets.get(*done)) {
            Some(&to) => {
                *done += 1;
                if visit(to) {
                    stack.push((to, 0));
                }
            }
            None => {
                finished.push(*at);
                stack.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edges(pairs: &[(u8, u8)]) -> Edges {
        let mut edges = Edges::new();
        for (from, to) in pairs.iter().filter(|(from, to)| from != to) {
            edges.entry(id(*from)).or_default().insert(id(*to));
        }
        edges
    }

    fn id(n: u8) -> PrincipalId {
        PrincipalId::new(format!("agt_{n:03}"))
    }

    fn found(pairs: &[(u8, u8)]) -> Vec<Vec<u8>> {
        let number = |id: PrincipalId| id.as_str()[4..].parse().unwrap();
        shortest(&edges(pairs)).into_iter().map(|cycle| cycle.into_iter().map(number).collect()).collect()
    }

    #[test]
    fn pairs_and_rings_start_at_their_smallest_id() {
        assert_eq!(found(&[(2, 1), (1, 2)]), [[1, 2]]);
        assert_eq!(found(&[(3, 1), (1, 2), (2, 3)]), [[1, 2, 3]]);
        assert_eq!(found(&[(1, 3), (3, 2), (2, 1)]), [[1, 3, 2]]);
    }

    #[test]
    fn who_waits_for_a_ring_from_outside_is_not_in_it() {
        assert_eq!(found(&[(1, 2), (2, 3), (3, 2), (3, 4)]), [[2, 3]]);
        assert!(found(&[(1, 2), (2, 3), (1, 3)]).is_empty());
        assert!(found(&[]).is_empty());
    }

    #[test]
    fn one_shortest_ring_for_each_knot() {
        // A ring of four with a shortcut that makes one of three; and another knot.
        assert_eq!(found(&[(1, 2), (2, 3), (3, 4), (4, 1), (3, 1), (8, 9), (9, 8)]), [vec![1, 2, 3], vec![8, 9]]);
        // The shortest need not hold the smallest of the knot.
        assert_eq!(found(&[(1, 2), (2, 3), (3, 1), (2, 4), (4, 2)]), [[2, 4]]);
    }

    /// The length of the shortest cycle through any of `members`, found by walking sets of nodes.
    fn naive(edges: &Edges) -> Option<usize> {
        let mut shortest: Option<usize> = None;
        for start in edges.keys() {
            let mut at: BTreeSet<PrincipalId> = BTreeSet::from([start.clone()]);
            for length in 1..=edges.len() {
                at = at.iter().flat_map(|id| edges.get(id).cloned().unwrap_or_default()).collect();
                if at.contains(start) {
                    shortest = Some(shortest.map_or(length, |best| best.min(length)));
                    break;
                }
            }
        }
        shortest
    }

    proptest! {
        #[test]
        fn every_ring_is_one_and_the_shortest_is_among_them(pairs in prop::collection::vec((0..9_u8, 0..9_u8), 0..30)) {
            let edges = edges(&pairs);
            let cycles = shortest(&edges);
            for cycle in &cycles {
                prop_assert_eq!(cycle.first(), cycle.iter().min());
                for (at, from) in cycle.iter().enumerate() {
                    let to = &cycle[(at + 1) % cycle.len()];
                    prop_assert!(edges[from].contains(to));
                }
            }
            let members: Vec<_> = cycles.iter().flatten().collect();
            prop_assert_eq!(members.len(), members.iter().collect::<BTreeSet<_>>().len());
            prop_assert_eq!(cycles.iter().map(Vec::len).min(), naive(&edges));
        }
    }
}
