//! As many pools as descriptors can name. This is a separate test program, because it uses all the numbers.

use forebay::packet::{Pool, PoolConfig};

#[test]
fn there_are_256_pools_and_the_next_one_is_an_error_until_one_ends() {
    let config = PoolConfig {
        slots: 1,
        ..PoolConfig::default()
    };
    let mut pools: Vec<Pool> = (0..256).map(|_| Pool::new(&config).unwrap()).collect();
    let error = Pool::new(&config).unwrap_err().to_string();
    assert!(error.contains("Drop a pool"), "{error}");

    let packet = pools[77].take().unwrap();
    drop(pools.swap_remove(77));
    assert!(
        Pool::new(&config).is_err(),
        "one of its packets still exists"
    );
    drop(packet);
    assert_eq!(Pool::new(&config).unwrap().number(), 77);
}
