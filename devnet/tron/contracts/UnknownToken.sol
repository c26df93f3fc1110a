// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.37;

// A token that nobody knows: everybody has enough of it.
contract UnknownToken {
    mapping(address account => uint256) public balanceOf;

    event Transfer(address indexed from, address indexed to, uint256 value);

    function transfer(address to, uint256 value) external returns (bool) {
        unchecked {
            balanceOf[msg.sender] -= value;
            balanceOf[to] += value;
        }
        emit Transfer(msg.sender, to, value);
        return true;
    }
}
