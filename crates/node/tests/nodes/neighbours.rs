//! What a volume sees of a noisy neighbour in its pool.

use std::time::Duration;

use crate::scene::{READS, Scene, WRITES, limited, part};
use node::Terms;
use reactor::Reactor;

/// However much a neighbour asks for, a volume that keeps within its minimum sees little of it, and
/// so does one beside a neighbour with a limit. Without either, reads collide on the drives' dies.
#[test]
fn a_noisy_neighbour_hardly_moves_a_volume_with_a_minimum() {
    Reactor::simulated(31).run(async {
        let scene = Scene::start().await;
        let free = scene.beside(READS).await.ratio();
        assert!(free > 1.3, "without terms: {free}");
        for noise in [READS, WRITES] {
            scene.set_terms("quiet", part(Some(30_000))).await;
            scene.set_terms("noisy", part(None)).await;
            let moved = scene.beside(noise).await;
            assert!(moved.ratio() < 1.2, "{} beside {noise:?}", moved.ratio());
            assert!(moved.rate > 5000, "{noise:?} goes on at {}", moved.rate);
            scene.set_terms("quiet", Terms::default()).await;
            scene.set_terms("noisy", limited(20_000)).await;
            let moved = scene.beside(noise).await.ratio();
            assert!(moved < 1.2, "{moved} beside limited {noise:?}");
        }
        scene.node.shutdown(Duration::from_secs(1)).await.unwrap();
    });
}
