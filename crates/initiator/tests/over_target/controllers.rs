//! What a host can ask of a controller: discovery, identify, features, events, raw commands.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::AllowedHosts;
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use initiator::{Controller, Data, Error, State, discover};
use nvme::event::AsyncEvent;
use nvme::feature::Feature;
use nvme::log::{LogPage, SubsystemType};
use nvme::{IoOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::rules::Protection;

use crate::{SUBSYSTEM, Server, memory, options, simulate};

#[test]
fn discovery_names_the_subsystems_a_host_may_use() {
    simulate(1, async {
        let server = Server::memory(4096, 64);
        let other = "nqn.2026-11.example.flashyard:test:secret";
        let somebody = "nqn.2026-11.example:somebody".parse().unwrap();
        server.add_subsystem(other, AllowedHosts::list([somebody]));
        let records = discover(server.address, &options()).await.unwrap();
        let volumes: Vec<_> = records
            .iter()
            .filter(|one| one.subsystem_type == SubsystemType::NVM)
            .collect();
        assert_eq!(volumes.len(), 1, "{records:?}");
        assert_eq!(volumes[0].subsystem_nqn, SUBSYSTEM);
        assert_eq!(volumes[0].endpoint(), Some(server.address.into()));
        assert!(!volumes[0].secure);
        let refused = Controller::connect(server.address, other, options()).await;
        let Err(Error::Refused { status, .. }) = refused else {
            panic!("refused")
        };
        assert_eq!(status.code(), Status::CONNECT_INVALID_HOST);
    });
}

#[test]
fn a_subsystem_that_is_not_there_is_refused_by_parameter() {
    simulate(2, async {
        let server = Server::memory(4096, 64);
        let missing = "nqn.2026-11.example.flashyard:test:missing";
        let refused = Controller::connect(server.address, missing, options()).await;
        let error = refused.err().unwrap();
        let Error::Refused { status, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(status.code(), Status::CONNECT_INVALID_PARAMETERS);
        assert!(
            error.to_string().contains("byte 256 of the data"),
            "{error}"
        );
    });
}

#[test]
fn a_controller_says_what_it_is() {
    simulate(3, async {
        let server = Server::memory(512, 64);
        let controller = server.connect(options()).await;
        assert_eq!(controller.state(), State::Live);
        assert!(controller.controller_id().unwrap() <= nvme::fabrics::CONTROLLER_ID_MAX);
        let data = controller.identify().unwrap();
        assert_eq!(nvme::text::from_padded(&data.model), "Flashyard");
        assert_eq!(controller.active_namespaces().await.unwrap(), [1]);
        server.add_namespace(7, Rc::new(memory(4096, 128)));
        assert_eq!(controller.active_namespaces().await.unwrap(), [1, 7]);
        let geometry = controller.namespace(7).await.unwrap().geometry();
        assert_eq!((geometry.block_bytes, geometry.block_count), (4096, 128));
        let missing = controller.namespace(5).await.err().unwrap();
        assert!(matches!(missing, Error::Namespace(5)), "{missing}");
        let keep_alive = controller
            .get_feature(Feature::KEEP_ALIVE_TIMER, 0)
            .await
            .unwrap();
        assert_eq!(keep_alive, 5000);
        let refused = controller
            .get_feature(Feature(0xc7), 0)
            .await
            .err()
            .unwrap();
        assert!(matches!(refused, Error::Command(_)), "{refused}");
        let odd = controller
            .log_page(LogPage::SMART, u32::MAX, 0, 510)
            .await
            .err()
            .unwrap();
        assert!(matches!(odd, Error::Option { .. }), "{odd}");
        assert_eq!(
            controller
                .log_page(LogPage::SMART, u32::MAX, 0, 512)
                .await
                .unwrap()
                .len(),
            512
        );
    });
}

#[test]
fn events_arrive_and_a_grown_namespace_is_seen() {
    simulate(4, async {
        let server = Server::memory(4096, 64);
        let controller = server.connect(options()).await;
        for nsid in 2..4 {
            server.add_namespace(nsid, Rc::new(memory(4096, 64)));
            assert_eq!(
                controller.next_event().await,
                Some(AsyncEvent::NAMESPACE_CHANGED)
            );
            let list = controller
                .log_page(LogPage::CHANGED_NAMESPACES, u32::MAX, 0, 4096)
                .await;
            assert_eq!(list.unwrap()[..4], nsid.to_le_bytes());
        }
        let geometry = controller
            .namespace(3)
            .await
            .unwrap()
            .refresh()
            .await
            .unwrap();
        assert_eq!(geometry.block_count, 64);
    });
}

/// A host hears that a namespace is write protected, sees it when it asks, and what it writes fails
/// so.
#[test]
fn a_namespace_says_when_it_is_write_protected() {
    simulate(6, async {
        let server = Server::memory(4096, 64);
        let keeper = Arc::new(|_: &_, _, _| Box::pin(async { Ok(()) }) as _);
        server.target.keep_rules(keeper);
        let controller = server.connect(options()).await;
        let namespace = controller.namespace(1).await.unwrap();
        let block = || Buffer::copy_of(&[7; 4096]);
        for (protection, expected) in [
            (Protection::None, Ok(())),
            (Protection::ByAdministrator, Err(IoError::WriteProtected)),
            (Protection::None, Ok(())),
        ] {
            let before = namespace.is_write_protected();
            let nqn = SUBSYSTEM.parse().unwrap();
            let protected = server.target.protect(&nqn, 1, protection).await;
            protected.unwrap();
            let is_protected = protection != Protection::None;
            if is_protected != before {
                let event = controller.next_event().await;
                assert_eq!(event, Some(AsyncEvent::NAMESPACE_CHANGED));
                let page = LogPage::CHANGED_NAMESPACES;
                let list = controller.log_page(page, u32::MAX, 0, 4096).await;
                assert_eq!(list.unwrap()[..4], 1_u32.to_le_bytes());
            }
            namespace.refresh().await.unwrap();
            assert_eq!(namespace.is_write_protected(), is_protected);
            let written = namespace.write(Lba(3), block(), Durability::Durable);
            assert_eq!(written.await.1, expected);
            let range = BlockRange::new(Lba(4), 1);
            let cached = Durability::Cached;
            assert_eq!(namespace.write_zeroes(range, cached).await, expected);
            assert_eq!(namespace.deallocate(range).await, expected);
            namespace.flush().await.unwrap();
            let (read, result) = namespace.read(Lba(3), Buffer::zeroed(4096)).await;
            assert_eq!((result, read[0]), (Ok(()), 7));
        }
        let anew = controller.namespace(1).await.unwrap();
        assert!(!anew.is_write_protected());
    });
}

#[test]
fn commands_beyond_reading_and_writing() {
    simulate(5, async {
        let server = Server::memory(4096, 64);
        let namespace = server.namespace(options()).await;
        let block = |byte: u8| Buffer::copy_of(&[byte; 4096]);
        let cached = Durability::Cached;
        namespace.write(Lba(5), block(1), cached).await.1.unwrap();
        namespace.compare(Lba(5), block(1)).await.1.unwrap();
        let differs = namespace.compare(Lba(5), block(2)).await.1;
        assert_eq!(differs, Err(IoError::CompareFailure));
        let (_, _, swapped) = namespace
            .compare_and_write(Lba(5), block(1), block(3))
            .await;
        swapped.unwrap();
        let (old, new, refused) = namespace
            .compare_and_write(Lba(5), block(1), block(4))
            .await;
        assert_eq!(refused, Err(IoError::CompareFailure));
        assert_eq!((old.len(), new.len()), (4096, 4096));
        namespace.compare(Lba(5), block(3)).await.1.unwrap();
        namespace.verify(BlockRange::new(Lba(0), 64)).await.unwrap();
        let outside = namespace.verify(BlockRange::new(Lba(0), 65)).await;
        assert_eq!(outside, Err(IoError::OutOfRange));
        namespace
            .write_zeroes(BlockRange::new(Lba(5), 1), Durability::Durable)
            .await
            .unwrap();
        namespace.compare(Lba(5), block(0)).await.1.unwrap();
        namespace.flush().await.unwrap();
    });
}

#[test]
fn raw_commands_return_whatever_the_controller_says() {
    simulate(6, async {
        let server = Server::memory(4096, 64);
        let controller = server.connect(options()).await;
        let queue = controller.queue(0).unwrap();
        let unknown = SubmissionEntry::new(0x90, 1, SglDescriptor::transport(0));
        let (_, completion) = queue.submit(unknown, Data::None).await;
        assert_eq!(completion.unwrap().status().code(), Status::INVALID_OPCODE);
        let flush = SubmissionEntry::new(IoOpcode::FLUSH.0, 9, SglDescriptor::transport(0));
        let (_, completion) = queue.submit(flush, Data::None).await;
        assert_eq!(
            completion.unwrap().status().code(),
            Status::INVALID_NAMESPACE
        );
        let (_, completion) = controller.admin(unknown, Data::None).await;
        assert_eq!(completion.unwrap().status().code(), Status::INVALID_OPCODE);
        assert!(controller.queue(1).is_err());
        assert_eq!(controller.state(), State::Live);
    });
}

#[test]
fn disconnecting_ends_in_order() {
    simulate(7, async {
        let server = Server::memory(4096, 64);
        let controller = server.connect(options()).await;
        let namespace = controller.namespace(1).await.unwrap();
        controller.disconnect().await;
        let (_, result) = namespace.read(Lba(0), Buffer::new(4096)).await;
        assert_eq!(result, Err(IoError::DeviceGone));
        reactor::sleep(Duration::from_millis(100)).await;
        assert_eq!(server.target.counters().connections, 0);
    });
}
